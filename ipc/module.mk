ipc_SOURCES := ipc/channel.c ipc/fault.c ipc/message.c
