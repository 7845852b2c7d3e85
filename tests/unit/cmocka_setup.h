/* What cmocka wants included before itself. */
#ifndef ECLUSA_TESTS_UNIT_CMOCKA_SETUP_H
#define ECLUSA_TESTS_UNIT_CMOCKA_SETUP_H

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#endif
