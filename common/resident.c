/* See resident.h. */
#include "common/resident.h"

#include <link.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/mman.h>
#include <unistd.h>

/* Of the first object, which is the program: what is mapped from its file and never written to. Relocated data is, and stays. */
static int drop_object(struct dl_phdr_info *info, size_t size, void *page)
{
	const uintptr_t mask = *(const uintptr_t *)page - 1;
	(void)size;
	for (size_t i = 0; i < info->dlpi_phnum; i++) {
		const ElfW(Phdr) *part = &info->dlpi_phdr[i];
		if (part->p_type != PT_LOAD || (part->p_flags & PF_W) != 0)
			continue;
		uintptr_t from = (info->dlpi_addr + part->p_vaddr) & ~mask;
		uintptr_t to = (info->dlpi_addr + part->p_vaddr + part->p_memsz + mask) & ~mask;
		(void)madvise((void *)from, to - from, MADV_DONTNEED); /* else it stays */
	}
	return 1;
}

void resident_drop_program(void)
{
	uintptr_t page = (uintptr_t)sysconf(_SC_PAGESIZE);
	(void)dl_iterate_phdr(drop_object, &page); /* it tells what the callback did */
}
