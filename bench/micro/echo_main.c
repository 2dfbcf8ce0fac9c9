/* SPDX-License-Identifier: Apache-2.0 */
/*
 * `echo server` and `echo client`: the raw ceiling that weft is measured against. They move the
 * same bytes as NVMe/TCP with the same batching and no NVMe. One thread each.
 */
#include "echo.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <sys/resource.h>

void echo_raise_file_limit(void)
{
	struct rlimit limit;

	if (getrlimit(RLIMIT_NOFILE, &limit) != 0)
		return;
	limit.rlim_cur = limit.rlim_max;
	setrlimit(RLIMIT_NOFILE, &limit);
}

int echo_usage_error(const char *format, ...)
{
	va_list args;

	fputs("echo: ", stderr);
	va_start(args, format);
	vfprintf(stderr, format, args);
	va_end(args);
	fputs("\nTry 'echo server --help' or 'echo client --help'.\n", stderr);
	return 2;
}

int main(int argc, char **argv)
{
	if (argc >= 2 && strcmp(argv[1], "server") == 0)
		return echo_server_main(argc - 1, argv + 1);
	if (argc >= 2 && strcmp(argv[1], "client") == 0)
		return echo_client_main(argc - 1, argv + 1);
	if (argc >= 2 && (strcmp(argv[1], "--help") == 0 || strcmp(argv[1], "-h") == 0)) {
		printf("Usage: echo server|client [OPTION]...\n\n"
		       "The raw ceiling: moves the bytes of NVMe/TCP with the same batching and no "
		       "NVMe.\n"
		       "'echo server --help' and 'echo client --help' list the options.\n");
		return 0;
	}
	return echo_usage_error("say 'server' or 'client' first");
}
