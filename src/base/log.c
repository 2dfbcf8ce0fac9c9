/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Log lines on standard error: "2026-11-15T04:31:58.123Z info target: text".
 *
 * Any thread; a line is built on the stack and leaves with one write(2). Control characters in
 * the text become '?', because parts of it may come from a peer and must not forge a second line
 * or drive a terminal.
 */
#include "base/log.h"

#include "base/clock.h"

#include <stdarg.h>
#include <stdio.h>
#include <time.h>
#include <unistd.h>

#define LOG_LINE_BYTES       1024
#define LOG_LINES_PER_WINDOW 10

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

void log_line(enum log_level level, const char *area, const char *format, ...)
{
	char line[LOG_LINE_BYTES];
	size_t head, used;
	va_list args;
	int len;

	if (level > log_get_level())
		return;
	head = log_put_head(line, sizeof(line), level, area);
	va_start(args, format);
	len = vsnprintf(line + head, sizeof(line) - head, format, args);
	va_end(args);
	if (len < 0)
		len = 0;
	used = head + (size_t)len;
	if (used > sizeof(line) - 1)
		used = sizeof(line) - 1;
	for (size_t i = head; i < used; i++) {
		unsigned char c = (unsigned char)line[i];

		if (c < 0x20 || c == 0x7f)
			line[i] = '?';
	}
	line[used++] = '\n';
	if (write(STDERR_FILENO, line, used) < 0)
		return; /* nowhere is left to complain to */
}

bool log_limit_pass(struct log_limit *limit, uint32_t *ret_held_back)
{
	/* Never 0, which is the start value of a limit that has not been used. */
	uint64_t now_ns = clock_monotonic_ns() | 1;
	uint64_t start_ns = atomic_load_explicit(&limit->window_start_ns, memory_order_relaxed);

	*ret_held_back = 0;
	/* One thread opens the new window; another that loses the race counts in either. */
	if ((start_ns == 0 || now_ns - start_ns >= NS_PER_S) &&
	    atomic_compare_exchange_strong(&limit->window_start_ns, &start_ns, now_ns))
		atomic_store(&limit->passed, 0);
	if (atomic_fetch_add(&limit->passed, 1) >= LOG_LINES_PER_WINDOW) {
		atomic_fetch_add(&limit->held_back, 1);
		return false;
	}
	*ret_held_back = atomic_exchange(&limit->held_back, 0);
	return true;
}
