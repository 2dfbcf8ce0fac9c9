/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The thread that writes log lines for a daemon, so that a reactor never waits for its log: a pipe
 * that is not read, or a busy disk, blocks only this thread.
 *
 * Lines pass through a lock-free ring with a fixed number of lines, and are written in the order in
 * which they were put. A line that finds the ring full is dropped and counted; one line reports the
 * loss at that place. Without the log writer, each thread writes its own lines (base/log.c).
 */
#ifndef WEFT_BASE_LOG_WRITER_H
#define WEFT_BASE_LOG_WRITER_H

#include "base/log.h"

#include <stdbool.h>
#include <stddef.h>

#define LOG_WRITER_LINES 2048u

/* Starts the log writer; called by one thread, while it is not running. 0 or -errno: then each
 * thread still writes its own lines. */
int log_writer_start(void);
/*
 * Writes the remaining lines and ends the thread. No other thread may log meanwhile. Gives up when
 * standard error takes nothing for a second: later lines are dropped.
 */
void log_writer_stop(void);
/* Waits until all lines logged so far are written; gives up when no line is written for a second.
 * Any thread, any state: nothing here allocates or locks. */
void log_writer_flush(void);

/* For base/log.c: takes over the line. False: the log writer is not running, the caller writes the
 * line. */
bool log_writer_put(const char *line, size_t len_bytes);
/* Implemented in base/log.c: formats a line, including its newline, for the log writer. Returns its
 * bytes. */
size_t log_format(char line[LOG_LINE_BYTES], enum log_level level, const char *area,
		  const char *format, ...) __attribute__((format(printf, 4, 5)));

#endif
