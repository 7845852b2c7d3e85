ipc_SOURCES := ipc/channel.c ipc/control.c ipc/fault.c ipc/message.c ipc/scrape.c
