/* Memory that a process which mostly waits need not hold. */
#ifndef ECLUSA_COMMON_RESIDENT_H
#define ECLUSA_COMMON_RESIDENT_H

/**
 * Let go of the program's own code and constants: what is needed again comes back from the page cache at its next use, and that is
 * little in one that only waits. Changes nothing that the program can see.
 */
void resident_drop_program(void);

#endif
