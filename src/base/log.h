/* SPDX-License-Identifier: Apache-2.0 */
/*
 * One line per event on standard error, never on the path of a successful I/O.
 *
 * Any thread. A line is written with one write(2), so that lines of two threads do not mix. In a
 * daemon the log writer writes it, and the thread that logs does not wait (base/log_writer.h). A
 * line that a peer can cause uses log_of_peer, where the peer is known, or log_limited, which lets
 * at most ten lines per second pass for each call site. Both report how many lines they held back.
 * tools/tidy finds lines that use neither.
 */
#ifndef WEFT_BASE_LOG_H
#define WEFT_BASE_LOG_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#define LOG_LINE_BYTES 1024 /* longest line; longer ones are truncated */

enum log_level {
	LOG_LEVEL_OFF, /* for programs that cause errors on purpose */
	LOG_LEVEL_ERROR,
	LOG_LEVEL_WARN,
	LOG_LEVEL_INFO,
	LOG_LEVEL_DEBUG,
};

struct log_limit {
	_Atomic uint64_t window_start_ns;
	_Atomic uint32_t passed;
	_Atomic uint32_t held_back;
};

void log_set_level(enum log_level level);
enum log_level log_get_level(void);

/*
 * Limit for lines about one peer, stricter than that of a call site, so that a peer that keeps
 * reconnecting neither floods the log nor suppresses lines about other peers. At level debug no
 * line is held back.
 */
#define LOG_PEER_LINES    20
#define LOG_PEER_WINDOW_S 10
bool log_peer_pass(struct log_limit *limit, uint32_t *ret_held_back);

/* `area` is the folder that the line comes from: "tcp", "target", "media", ... */
void log_line(enum log_level level, const char *area, const char *format, ...)
	__attribute__((format(printf, 3, 4)));
bool log_limit_pass(struct log_limit *limit, uint32_t *ret_held_back);

#define log_error(area, ...) log_line(LOG_LEVEL_ERROR, area, __VA_ARGS__)
#define log_warn(area, ...)  log_line(LOG_LEVEL_WARN, area, __VA_ARGS__)
#define log_info(area, ...)  log_line(LOG_LEVEL_INFO, area, __VA_ARGS__)
#define log_debug(area, ...)                                                                       \
	do {                                                                                       \
		if (log_get_level() >= LOG_LEVEL_DEBUG)                                            \
			log_line(LOG_LEVEL_DEBUG, area, __VA_ARGS__);                              \
	} while (0)

#define log_limited(level, area, ...)                                                              \
	do {                                                                                       \
		static struct log_limit limit_of_this_line;                                        \
		uint32_t held_back_lines;                                                          \
		if (log_limit_pass(&limit_of_this_line, &held_back_lines)) {                       \
			if (held_back_lines > 0)                                                   \
				log_line(level, area, "(%u lines like the next were held back)",   \
					 held_back_lines);                                         \
			log_line(level, area, __VA_ARGS__);                                        \
		}                                                                                  \
	} while (0)

#define log_of_peer(peer_limit, level, area, ...)                                                  \
	do {                                                                                       \
		uint32_t held_back_lines;                                                          \
		if (log_peer_pass(peer_limit, &held_back_lines)) {                                 \
			if (held_back_lines > 0)                                                   \
				log_line(level, area,                                              \
					 "(%u lines about the peer of the next one were held "     \
					 "back)",                                                  \
					 held_back_lines);                                         \
			log_line(level, area, __VA_ARGS__);                                        \
		}                                                                                  \
	} while (0)

#endif
