/* SPDX-License-Identifier: Apache-2.0 */
/*
 * base/log.h for libweft: a line that is logged on a reactor's thread is passed only to the log
 * callback of the instance that owns the thread. Linked into libweft in place of base/log.c, which
 * writes to standard error and is used by the program weft. Any thread. log_set_level does nothing,
 * because a level would be global to all instances.
 */
#include "base/log.h"
#include "base/text.h"
#include "lib/lib.h"

#include <stdarg.h>
#include <stdio.h>

#define LOG_LINE_BYTES 1024

void log_set_level(enum log_level level)
{
	(void)level;
}

enum log_level log_get_level(void)
{
	const struct weft *weft = lib_of_thread();

	return weft != NULL && weft->log != NULL ? LOG_LEVEL_DEBUG : LOG_LEVEL_OFF;
}

void log_line(enum log_level level, const char *area, const char *format, ...)
{
	char line[LOG_LINE_BYTES], shown[LOG_LINE_BYTES];
	va_list args;
	int head;

	if (level > log_get_level())
		return;
	head = snprintf(line, sizeof(line), "%.32s: ", area);
	va_start(args, format);
	vsnprintf(line + head, sizeof(line) - (size_t)head, format, args);
	va_end(args);
	/* Parts of the line may come from a peer, so escape them. */
	lib_log(lib_of_thread(), (int)level, text_escape(line, shown, sizeof(shown)));
}
