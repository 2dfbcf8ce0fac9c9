/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Events of commands in the persistent event log of their subsystem (ns/event_log.h). Private to
 * target/; control reactor.
 */
#ifndef WEFT_TARGET_EVENT_NOTE_H
#define WEFT_TARGET_EVENT_NOTE_H

#include <stdint.h>

struct manage_request;
struct target;

/*
 * Notes what a host's management command has done: namespaces made and deleted, formats, saved
 * features. manage.c, on the control reactor: begin before control hears of it, end with its
 * answer. Both find the subsystem in the snapshot in force.
 */
void event_log_note_begin(struct target *target, const struct manage_request *request);
void event_log_note_end(struct target *target, const struct manage_request *request);
/* The same of a saved feature without data that is no change of the configuration. Control reactor.
 */
void event_log_note_feature(struct target *target, const char *subsystem_nqn, uint8_t feature_id,
			    uint32_t value);

#endif
