/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Adds events of commands to the persistent event log of their subsystem (ns/event_log.h). Private
 * to target/. Runs on the control reactor.
 */
#ifndef WEFT_TARGET_EVENT_NOTE_H
#define WEFT_TARGET_EVENT_NOTE_H

#include <stdint.h>

struct manage_request;
struct target;

/*
 * Add what a host's management command has done to the event log: namespaces created and deleted,
 * formats, saved features. Called by manage.c on the control reactor: _begin before target->manage
 * gets the request, _end when the request is answered. Both look for the subsystem in the snapshot
 * in force.
 */
void event_log_note_begin(struct target *target, const struct manage_request *request);
void event_log_note_end(struct target *target, const struct manage_request *request);
/* Adds a change of a saved feature that has no data and is not part of the configuration. Control
 * reactor. The event is saved with the next periodic save, within a minute: a host needs no right
 * for such a change, and a commit for each event would delay other hosts. */
void event_log_note_feature(struct target *target, const char *subsystem_nqn, uint8_t feature_id,
			    uint32_t value);

#endif
