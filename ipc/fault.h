/* Named points at which a test makes a program die. ECLUSA_FAULT=point[:n] in the environment; unset costs a comparison. */
#ifndef ECLUSA_IPC_FAULT_H
#define ECLUSA_IPC_FAULT_H

/** kill -9 this process if ECLUSA_FAULT names @point (for the n-th pass, default first). */
void fault_point(const char *point);

#endif
