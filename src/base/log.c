/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Log lines on standard error: "2026-11-15T04:31:58.123Z info target: text".
 *
 * Any thread. A line is built on the stack and written with one write(2), or passed to a daemon's
 * log writer (base/log_writer.h). Unprintable characters are escaped, because parts of a line may
 * come from a peer and must not forge a second line or control a terminal.
 */
#include "base/log.h"

#include "base/clock.h"
#include "base/log_writer.h"
#include "base/text.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

static _Atomic int log_level_now = LOG_LEVEL_INFO;

static const char *const log_level_names[] = {
	[LOG_LEVEL_ERROR] = "error",
	[LOG_LEVEL_WARN] = "warn",
	[LOG_LEVEL_INFO] = "info",
	[LOG_LEVEL_DEBUG] = "debug",
};

void log_set_level(enum log_level level)
{
	atomic_store_explicit(&log_level_now, (int)level, memory_order_relaxed);
}

enum log_level log_get_level(void)
{
	return (enum log_level)atomic_load_explicit(&log_level_now, memory_order_relaxed);
}

static size_t log_put_head(char *line, size_t line_bytes, enum log_level level, const char *area)
{
	uint64_t now_ns = clock_realtime_ns();
	time_t seconds = (time_t)(now_ns / NS_PER_S);
	struct tm utc;
	size_t used;
	int len;

	gmtime_r(&seconds, &utc);
	used = strftime(line, line_bytes, "%Y-%m-%dT%H:%M:%S", &utc);
	len = snprintf(line + used, line_bytes - used,
		       ".%03uZ %s %.32s: ", (unsigned)(now_ns % NS_PER_S / NS_PER_MS),
		       log_level_names[level], area);
	return used + (size_t)len;
}

/* Formats the whole line, including its newline. Returns the bytes used. */
__attribute__((format(printf, 4, 0))) static size_t
log_format_args(char line[LOG_LINE_BYTES], enum log_level level, const char *area,
		const char *format, va_list args)
{
	size_t head = log_put_head(line, LOG_LINE_BYTES, level, area);
	char text[LOG_LINE_BYTES];
	size_t used;

	/* Escaped because parts of the text may come from a peer. The last byte is for the
	 * newline. */
	if (vsnprintf(text, sizeof(text), format, args) < 0)
		text[0] = 0;
	text_escape(text, line + head, LOG_LINE_BYTES - head - 1);
	used = head + strlen(line + head);
	line[used++] = '\n';
	return used;
}

size_t log_format(char line[LOG_LINE_BYTES], enum log_level level, const char *area,
		  const char *format, ...)
{
	va_list args;
	size_t used;

	va_start(args, format);
	used = log_format_args(line, level, area, format, args);
	va_end(args);
	return used;
}

void log_line(enum log_level level, const char *area, const char *format, ...)
{
	char line[LOG_LINE_BYTES];
	va_list args;
	size_t used;

	if (level > log_get_level())
		return;
	va_start(args, format);
	used = log_format_args(line, level, area, format, args);
	va_end(args);
	if (!log_writer_put(line, used) && write(STDERR_FILENO, line, used) < 0)
		return; /* no other place to report the error */
}
