/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The thread that writes log lines for a daemon, so that a reactor never waits for its log: a pipe
 * that nobody reads, or a disk that is full of other work, holds this thread and nobody else.
 *
 * Lines go through a ring of a fixed number of lines without a lock. They come out in the order in
 * which they went in; what finds the ring full is dropped, counted, and told of by one line where
 * it is missing. Without the writer lines are written by whoever has one to write (base/log.c).
 */
#ifndef WEFT_BASE_LOG_WRITER_H
#define WEFT_BASE_LOG_WRITER_H

#include "base/log.h"

#include <stdbool.h>
#include <stddef.h>

#define LOG_WRITER_LINES 2048u

/* From one thread, once at a time. 0 or -errno: lines are then written as before. */
int log_writer_start(void);
/*
 * Writes what is there and ends the thread; no other thread may log meanwhile. Gives up when
 * standard error takes nothing for a second: what is logged after that is dropped.
 */
void log_writer_stop(void);
/* Waits until what was logged before is written, a second at most. Any thread, any state: nothing
 * here allocates or locks. */
void log_writer_flush(void);

/* For base/log.c: takes the line over. False: there is no writer, write it yourself. */
bool log_writer_put(const char *line, size_t len_bytes);
/* Of base/log.c: a line, its newline included, for the writer to write. Returns its bytes. */
size_t log_format(char line[LOG_LINE_BYTES], enum log_level level, const char *area,
		  const char *format, ...) __attribute__((format(printf, 4, 5)));

#endif
