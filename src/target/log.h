/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Log pages are written piece by piece into the window that the host asked for. A read at any
 * offset of a page of any size therefore needs no memory besides the command's own buffer.
 */
#ifndef WEFT_TARGET_LOG_H
#define WEFT_TARGET_LOG_H

#include "target/target.h"

#include <string.h>

struct ctrl;
struct slot;

/* `buf` holds bytes [offset, offset + len_bytes) of the page. The caller zeroes `buf`
 * beforehand. */
struct log_window {
	uint8_t *buf;
	uint64_t offset;
	uint32_t len_bytes;
};

/* Copies into the window the part that overlaps it of the piece [at, at + piece_bytes) of the
 * page. */
static inline void log_window_put(const struct log_window *window, uint64_t at, const void *piece,
				  uint32_t piece_bytes)
{
	uint64_t skip, room;

	if (at >= window->offset) {
		if (at - window->offset >= window->len_bytes)
			return;
		room = window->len_bytes - (at - window->offset);
		memcpy(window->buf + (at - window->offset), piece,
		       piece_bytes < room ? piece_bytes : room);
		return;
	}
	skip = window->offset - at;
	if (skip >= piece_bytes)
		return;
	room = piece_bytes - skip;
	memcpy(window->buf, (const uint8_t *)piece + skip,
	       room < window->len_bytes ? room : window->len_bytes);
}

/* The ANA page as one host sees it through one port. All pointers are into one snapshot. */
struct log_ana_view {
	const struct subsystem *subsystem;
	const struct port *port;
	uint32_t host_index;
	uint64_t change_count;
};

/* Completes a Get Log Page whose page is in slot->data. page_bytes is the size of the whole page.
 * cmd_log.c */
void log_finish(struct slot *slot, const struct log_cmd *cmd, uint64_t page_bytes);
/* log_health.c, log_persistent_event.c: pages made on the control reactor. Complete the command. */
void log_smart_execute(struct slot *slot, const struct log_cmd *cmd);
void log_event_execute(struct slot *slot, const struct log_cmd *cmd);

/* cmd_ctrl_reset.c: log 1Eh. A host may ask to have finished entries removed. Completes the
 * command. */
void log_ctrl_reset_execute(struct slot *slot, const struct log_cmd *cmd);

/* All write the part of the page that lies in the window, and return the size of the whole page. */
uint64_t log_ana_write(const struct log_ana_view *view, bool is_groups_only,
		       const struct log_window *window);
uint64_t log_reservation_write(const struct ctrl *ctrl, const struct log_window *window);
uint64_t log_lost_host_write(const struct ctrl *ctrl, const struct log_window *window);
uint64_t log_error_write(const struct ctrl *ctrl, const struct log_window *window);

#endif
