/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The persistent event log (0Dh) of a subsystem: at most 256 events or 16 KiB, the oldest make room
 * for new ones. Part of a struct subsystem_live; control reactor only. Kept as one value (kind
 * "events", key NQN). A controller reads a private copy, which establishing a context makes.
 * NVMe Base 2.1, section 5.1.12.1.14.
 */
#ifndef WEFT_NS_EVENT_LOG_H
#define WEFT_NS_EVENT_LOG_H

#include "wire/event_log.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* With the header; thousands of subsystems have one, in memory and written whole. */
#define EVENT_LOG_BYTES_MAX (16384 - EVENT_LOG_HEADER_BYTES)

struct event_log;

/* 0 or -ENOMEM. */
int event_log_create(struct event_log **ret_log);
void event_log_destroy(struct event_log *log);
/* 0; -EPROTO: what was kept makes no sense, the log begins empty. */
int event_log_decode(struct event_log *log, const uint8_t *bytes, size_t len_bytes);
/* The log as it is kept; lives until the next change. */
const uint8_t *event_log_bytes(const struct event_log *log, size_t *ret_bytes);
unsigned event_log_count(const struct event_log *log);
/* Any change since the last event_log_set_kept. */
bool event_log_is_changed(const struct event_log *log);
void event_log_set_kept(struct event_log *log);
void event_log_set_unkept(struct event_log *log);

/*
 * Adds an event as of now. `where` says which controller and port it belongs to; NULL: none.
 * Without memory the event is lost, and said so in the log of the process.
 */
void event_log_add(struct event_log *log, enum event_type type, const struct event_place *where,
		   const uint8_t *data, uint32_t data_bytes);

/*
 * The page as hosts read it: header and events, newest first. The caller frees it. NULL: no memory.
 * `header` comes filled, but for what the events tell.
 */
uint8_t *event_log_page(struct event_log *log, struct event_log_header *header, size_t *ret_bytes);

/* The page of a log that does not exist. */
uint8_t *event_log_page_empty(struct event_log_header *header, size_t *ret_bytes);

#endif
