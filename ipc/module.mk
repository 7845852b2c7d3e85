ipc_SOURCES := ipc/channel.c ipc/control.c ipc/fault.c ipc/message.c ipc/openings.c ipc/program.c ipc/scrape.c ipc/service.c
