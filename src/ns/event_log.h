/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The persistent event log (0Dh) of a subsystem: at most 256 events or 16 KiB; the oldest events
 * are discarded for new ones. Part of a struct subsystem_live; control reactor only. Kept as one
 * value (kind "events", key NQN). Establishing a context makes a private copy for a controller to
 * read. NVMe Base 2.1, section 5.1.12.1.14.
 */
#ifndef WEFT_NS_EVENT_LOG_H
#define WEFT_NS_EVENT_LOG_H

#include "wire/persistent_event.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* 16 KiB with the header. Small, because thousands of subsystems have a log, in memory and written
 * as a whole. */
#define EVENT_LOG_BYTES_MAX (16384 - EVENT_LOG_HEADER_BYTES)

struct event_log;

/* 0 or -ENOMEM. */
int event_log_create(struct event_log **ret_log);
void event_log_destroy(struct event_log *log);
/* Loads a kept log. 0, -ENOMEM, or -EPROTO: the value is invalid and the log is unchanged. */
int event_log_decode(struct event_log *log, const uint8_t *bytes, size_t len_bytes);
/* The value to keep; valid until the next change. */
const uint8_t *event_log_bytes(const struct event_log *log, size_t *ret_bytes);
unsigned event_log_count(const struct event_log *log);
/* Whether the log has changed since event_log_set_kept. */
bool event_log_is_changed(const struct event_log *log);
void event_log_set_kept(struct event_log *log);
void event_log_set_unkept(struct event_log *log);

/*
 * Adds an event with the present time. `where` is the controller and port of the event; NULL: none.
 * Out of memory: the event is lost, with a warning in the log of the process.
 */
void event_log_add(struct event_log *log, enum event_type type, const struct event_place *where,
		   const uint8_t *data, uint32_t data_bytes);

/*
 * Builds the log page as hosts read it: header and events, newest first. The caller fills `header`
 * except the fields that depend on the events, and frees the result. NULL: out of memory.
 */
uint8_t *event_log_page(struct event_log *log, struct event_log_header *header, size_t *ret_bytes);

/* The log page of a subsystem without a log. */
uint8_t *event_log_page_empty(struct event_log_header *header, size_t *ret_bytes);

#endif
