/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The rules of reservations: how Register, Acquire, Release and the features change one. NVMe Base
 * 2.1, sections 8.1.22.2 to 8.1.22.9.
 *
 * Pure: a rule takes the present reservation and a decoded command, and returns a new reservation
 * with the list of notices to other hosts. Nothing is shared, nothing blocks. Control reactor. The
 * registrants are one sorted array, so a rule is one pass over the array.
 */
#include "ns/reservation.h"

#include "base/check.h"
#include "base/sorted.h"

#include <stdlib.h>
#include <string.h>

static const struct uuid nil_id;

/* ---- one reservation ------------------------------------------------------------------------- */

struct reservation *reservation_get(struct reservation *reservation)
{
	if (reservation)
		reservation->refs++;
	return reservation;
}

void reservation_put(struct reservation *reservation)
{
	if (!reservation)
		return;
	CHECK(reservation->refs > 0);
	if (--reservation->refs == 0)
		free(reservation);
}

/* Index of the host, or of the first registrant above it. */
static uint32_t registrant_place(const struct reservation *reservation, const struct uuid *host_id)
{
	return SORTED_PLACE(i, reservation->count,
			    memcmp(reservation->registrants[i].host_id.bytes, host_id->bytes,
				   sizeof(host_id->bytes)) < 0);
}

const struct registrant *reservation_find(const struct reservation *reservation,
					  const struct uuid *host_id)
{
	uint32_t place;

	if (!reservation)
		return NULL;
	place = registrant_place(reservation, host_id);
	if (place < reservation->count &&
	    uuid_equal(&reservation->registrants[place].host_id, host_id))
		return &reservation->registrants[place];
	return NULL;
}

bool reservation_is_holder(const struct reservation *reservation,
			   const struct registrant *registrant)
{
	if (!reservation_is_held(reservation))
		return false;
	return reservation_is_held_by_all(reservation) ||
	       uuid_equal(&reservation->holder, &registrant->host_id);
}

/* A copy that may still be changed, with space for `extra` more registrants. */
static struct reservation *reservation_copy(const struct reservation *now, uint32_t extra)
{
	size_t count = now ? now->count : 0;
	struct reservation *next =
		calloc(1, sizeof(*next) + (count + extra) * sizeof(next->registrants[0]));

	if (!next)
		return NULL;
	if (now)
		memcpy(next, now, sizeof(*now) + count * sizeof(now->registrants[0]));
	next->refs = 1;
	return next;
}

static void registrant_insert(struct reservation *next, const struct uuid *host_id, uint64_t key)
{
	uint32_t place = registrant_place(next, host_id);

	memmove(&next->registrants[place + 1], &next->registrants[place],
		(next->count - place) * sizeof(next->registrants[0]));
	next->registrants[place] = (struct registrant){.host_id = *host_id, .key = key};
	next->count++;
}

static void registrant_remove(struct reservation *next, const struct uuid *host_id)
{
	uint32_t place = registrant_place(next, host_id);

	next->count--;
	memmove(&next->registrants[place], &next->registrants[place + 1],
		(next->count - place) * sizeof(next->registrants[0]));
}

static void reservation_drop(struct reservation *next)
{
	next->type = RESERVATION_NONE;
	next->holder = nil_id;
}

static void reservation_hold(struct reservation *next, enum reservation_type type,
			     const struct uuid *host_id)
{
	next->type = type;
	next->holder = reservation_is_held_by_all(next) ? nil_id : *host_id;
}

/* ---- outcomes -------------------------------------------------------------------------------- */

void reservation_outcome_free(struct reservation_outcome *outcome)
{
	reservation_put(outcome->next);
	free(outcome->notices);
	*outcome = (struct reservation_outcome){0};
}

/* Makes a copy of `now` to change, and space for one notice to each registrant. */
static nvme_status outcome_begin(const struct reservation *now, uint32_t extra,
				 struct reservation_outcome *ret_outcome)
{
	size_t room = (now ? now->count : 0) + 1;

	*ret_outcome = (struct reservation_outcome){0};
	ret_outcome->next = reservation_copy(now, extra);
	ret_outcome->notices = calloc(room, sizeof(ret_outcome->notices[0]));
	if (ret_outcome->next && ret_outcome->notices)
		return NVME_SC_SUCCESS;
	reservation_outcome_free(ret_outcome);
	return NVME_SC_INTERNAL;
}

static void outcome_tell(struct reservation_outcome *outcome, const struct uuid *host_id,
			 enum reservation_notice_type type)
{
	outcome->notices[outcome->notice_count++] =
		(struct reservation_notice){.host_id = *host_id, .type = type};
}

/* Notifies every registered host except `but`; NULL: every host. */
static void outcome_tell_others(struct reservation_outcome *outcome, const struct uuid *but,
				enum reservation_notice_type type)
{
	const struct reservation *next = outcome->next;

	for (uint32_t i = 0; i < next->count; i++)
		if (!but || !uuid_equal(&next->registrants[i].host_id, but))
			outcome_tell(outcome, &next->registrants[i].host_id, type);
}

/* The host's registration if its key is right. NULL: Reservation Conflict. */
static const struct registrant *registrant_with_key(const struct reservation *now,
						    const struct uuid *host_id, uint64_t key)
{
	const struct registrant *registrant = reservation_find(now, host_id);

	return registrant && registrant->key == key ? registrant : NULL;
}

static nvme_status conflict(void)
{
	return nvme_status_dnr(NVME_SC_RESERVATION_CONFLICT);
}

static nvme_status invalid(void)
{
	return nvme_status_dnr(NVME_SC_INVALID_FIELD);
}

static bool type_is_known(uint8_t type)
{
	return type > RESERVATION_NONE && type <= RESERVATION_TYPE_MAX;
}

/* ---- Register: sections 8.1.22.3 and 8.1.22.5 ------------------------------------------------ */

/*
 * Ends the host's registration. A reservation that the host held alone ends too, and one that all
 * registrants hold ends with the last registrant. Other hosts are notified if the type gave
 * registrants access.
 */
static void unregister(struct reservation_outcome *outcome, const struct uuid *host_id)
{
	struct reservation *next = outcome->next;
	enum reservation_type type = next->type;
	bool was_alone = reservation_is_held(next) && !reservation_is_held_by_all(next) &&
			 uuid_equal(&next->holder, host_id);

	registrant_remove(next, host_id);
	if (was_alone || next->count == 0)
		reservation_drop(next);
	if (was_alone && (type == RESERVATION_WRITE_EXCLUSIVE_REGISTRANTS ||
			  type == RESERVATION_EXCLUSIVE_ACCESS_REGISTRANTS))
		outcome_tell_others(outcome, NULL, NOTICE_RESERVATION_RELEASED);
}

/* Checks the command before anything is copied. */
static nvme_status register_judge(const struct registrant *registrant,
				  const struct register_cmd *cmd)
{
	if (cmd->action > REPLACE_KEY || cmd->persist == 1)
		return invalid();
	/* Preempt uses key 0 for "no key". */
	if (cmd->action != UNREGISTER_KEY && cmd->new_key == 0)
		return invalid();
	/* IEKEY concerns the current key, which Register does not use. */
	if (cmd->action == REGISTER_KEY)
		return registrant && registrant->key != cmd->new_key ? conflict() : NVME_SC_SUCCESS;
	/* With IEKEY a host may replace its key whether it is registered or not. */
	if (!registrant)
		return cmd->action == REPLACE_KEY && cmd->ignores_key ? NVME_SC_SUCCESS
								      : conflict();
	if (registrant->key != cmd->current_key && !cmd->ignores_key)
		return conflict();
	return NVME_SC_SUCCESS;
}

nvme_status reservation_register(const struct reservation *now, const struct uuid *host_id,
				 const struct register_cmd *cmd,
				 struct reservation_outcome *ret_outcome)
{
	const struct registrant *registrant = reservation_find(now, host_id);
	nvme_status status = register_judge(registrant, cmd);
	struct reservation *next;

	*ret_outcome = (struct reservation_outcome){0};
	if (nvme_status_is_ok(status))
		status = outcome_begin(now, 1, ret_outcome);
	if (!nvme_status_is_ok(status))
		return status;
	next = ret_outcome->next;
	if (cmd->action == UNREGISTER_KEY)
		unregister(ret_outcome, host_id);
	else if (registrant)
		next->registrants[registrant_place(next, host_id)].key = cmd->new_key;
	else
		registrant_insert(next, host_id, cmd->new_key);
	if (cmd->persist != PERSIST_KEEP)
		next->persists = cmd->persist == PERSIST_ON;
	next->generation++;
	return NVME_SC_SUCCESS;
}

/* ---- Acquire: sections 8.1.22.4 and 8.1.22.7 ------------------------------------------------- */

static nvme_status acquire(const struct reservation *now, const struct registrant *registrant,
			   const struct acquire_cmd *cmd, struct reservation_outcome *ret_outcome)
{
	nvme_status status;

	if (reservation_is_held(now)) {
		/* The holder may repeat the command. */
		if (reservation_is_holder(now, registrant) && now->type == cmd->type)
			return NVME_SC_SUCCESS;
		return conflict();
	}
	status = outcome_begin(now, 0, ret_outcome);
	if (nvme_status_is_ok(status))
		reservation_hold(ret_outcome->next, cmd->type, &registrant->host_id);
	return status;
}

/* Selects the registrations that a Preempt ends. */
struct preempt {
	const struct uuid *host_id; /* the preempting host */
	uint64_t key;
	bool is_any_key;
	bool spares_asker;
};

static bool preempt_matches(const struct preempt *preempt, const struct registrant *registrant)
{
	if (preempt->spares_asker && uuid_equal(&registrant->host_id, preempt->host_id))
		return false;
	return preempt->is_any_key || registrant->key == preempt->key;
}

/* Ends the matching registrations in one pass; returns their number. The preempting host gets no
 * notice. */
static uint32_t preempt_registrants(struct reservation_outcome *outcome,
				    const struct preempt *preempt)
{
	struct reservation *next = outcome->next;
	uint32_t kept = 0, gone;

	for (uint32_t i = 0; i < next->count; i++) {
		const struct registrant *registrant = &next->registrants[i];

		if (!preempt_matches(preempt, registrant))
			next->registrants[kept++] = *registrant;
		else if (!uuid_equal(&registrant->host_id, preempt->host_id))
			outcome_tell(outcome, &registrant->host_id, NOTICE_REGISTRATION_PREEMPTED);
	}
	gone = next->count - kept;
	next->count = kept;
	return gone;
}

/*
 * Passes the reservation to the preempting host. Hosts that stay registered are notified if the
 * type changes, because their access may have changed.
 */
static void preempt_reservation(struct reservation_outcome *outcome, const struct preempt *preempt,
				enum reservation_type type)
{
	struct reservation *next = outcome->next;
	bool is_other_type = next->type != type;

	preempt_registrants(outcome, preempt);
	reservation_hold(next, type, preempt->host_id);
	if (is_other_type)
		outcome_tell_others(outcome, preempt->host_id, NOTICE_RESERVATION_RELEASED);
}

/* Ends registrations only. A key without a registrant is a conflict. */
static nvme_status preempt_keys(struct reservation_outcome *outcome, const struct preempt *preempt)
{
	struct reservation *next = outcome->next;

	if (preempt_registrants(outcome, preempt) == 0)
		return conflict();
	/* All registrants held the reservation, and the last one is gone. */
	if (next->count == 0)
		reservation_drop(next);
	return NVME_SC_SUCCESS;
}

static nvme_status preempt_apply(struct reservation_outcome *outcome, struct preempt *preempt,
				 enum reservation_type type)
{
	struct reservation *next = outcome->next;
	const struct registrant *holder;

	if (reservation_is_held_by_all(next)) {
		if (preempt->key != 0)
			return preempt_keys(outcome, preempt);
		preempt->is_any_key = true;
		preempt->spares_asker = true;
		preempt_reservation(outcome, preempt, type);
		return NVME_SC_SUCCESS;
	}
	holder = reservation_is_held(next) ? reservation_find(next, &next->holder) : NULL;
	if (holder && holder->key == preempt->key) {
		preempt->spares_asker = true;
		preempt_reservation(outcome, preempt, type);
		return NVME_SC_SUCCESS;
	}
	return preempt->key == 0 ? invalid() : preempt_keys(outcome, preempt);
}

static nvme_status preempt_begin(const struct reservation *now, const struct registrant *registrant,
				 const struct acquire_cmd *cmd,
				 struct reservation_outcome *ret_outcome)
{
	struct preempt preempt = {.host_id = &registrant->host_id, .key = cmd->preempt_key};
	nvme_status status = outcome_begin(now, 0, ret_outcome);

	if (!nvme_status_is_ok(status))
		return status;
	status = preempt_apply(ret_outcome, &preempt, cmd->type);
	if (!nvme_status_is_ok(status)) {
		reservation_outcome_free(ret_outcome);
		return status;
	}
	ret_outcome->next->generation++;
	ret_outcome->aborts = cmd->action == ACQUIRE_PREEMPT_AND_ABORT;
	return NVME_SC_SUCCESS;
}

nvme_status reservation_acquire(const struct reservation *now, const struct uuid *host_id,
				const struct acquire_cmd *cmd,
				struct reservation_outcome *ret_outcome)
{
	const struct registrant *registrant;

	*ret_outcome = (struct reservation_outcome){0};
	/* Since NVMe 1.3 only Register has IEKEY. */
	if (cmd->action > ACQUIRE_PREEMPT_AND_ABORT || cmd->ignores_key ||
	    !type_is_known(cmd->type))
		return invalid();
	registrant = registrant_with_key(now, host_id, cmd->current_key);
	if (!registrant)
		return conflict();
	return cmd->action == ACQUIRE_RESERVATION
		       ? acquire(now, registrant, cmd, ret_outcome)
		       : preempt_begin(now, registrant, cmd, ret_outcome);
}

/* ---- Release: sections 8.1.22.6 and 8.1.22.8 ------------------------------------------------- */

static nvme_status release(const struct reservation *now, const struct registrant *registrant,
			   const struct release_cmd *cmd, struct reservation_outcome *ret_outcome)
{
	nvme_status status;

	/* A Release by another host than the holder has no effect and is no error. */
	if (!reservation_is_holder(now, registrant))
		return NVME_SC_SUCCESS;
	if (cmd->type != now->type)
		return invalid();
	status = outcome_begin(now, 0, ret_outcome);
	if (!nvme_status_is_ok(status))
		return status;
	reservation_drop(ret_outcome->next);
	if (now->type != RESERVATION_WRITE_EXCLUSIVE && now->type != RESERVATION_EXCLUSIVE_ACCESS)
		outcome_tell_others(ret_outcome, &registrant->host_id, NOTICE_RESERVATION_RELEASED);
	return NVME_SC_SUCCESS;
}

static nvme_status clear(const struct reservation *now, const struct uuid *but,
			 struct reservation_outcome *ret_outcome)
{
	nvme_status status = outcome_begin(now, 0, ret_outcome);

	if (!nvme_status_is_ok(status))
		return status;
	outcome_tell_others(ret_outcome, but, NOTICE_RESERVATION_PREEMPTED);
	ret_outcome->next->count = 0;
	reservation_drop(ret_outcome->next);
	ret_outcome->next->generation++;
	return NVME_SC_SUCCESS;
}

nvme_status reservation_release(const struct reservation *now, const struct uuid *host_id,
				const struct release_cmd *cmd,
				struct reservation_outcome *ret_outcome)
{
	const struct registrant *registrant;

	*ret_outcome = (struct reservation_outcome){0};
	if (cmd->action > RELEASE_CLEAR || cmd->ignores_key)
		return invalid();
	if (cmd->action == RELEASE_RESERVATION && !type_is_known(cmd->type))
		return invalid();
	registrant = registrant_with_key(now, host_id, cmd->current_key);
	if (!registrant)
		return conflict();
	return cmd->action == RELEASE_CLEAR ? clear(now, host_id, ret_outcome)
					    : release(now, registrant, cmd, ret_outcome);
}

nvme_status reservation_clear_all(const struct reservation *now,
				  struct reservation_outcome *ret_outcome)
{
	*ret_outcome = (struct reservation_outcome){0};
	if (!now || now->count == 0)
		return NVME_SC_SUCCESS;
	return clear(now, NULL, ret_outcome);
}

nvme_status reservation_set_persist(const struct reservation *now, bool persists,
				    struct reservation_outcome *ret_outcome)
{
	nvme_status status;

	*ret_outcome = (struct reservation_outcome){0};
	if ((now && now->persists) == persists)
		return NVME_SC_SUCCESS;
	status = outcome_begin(now, 0, ret_outcome);
	if (nvme_status_is_ok(status))
		ret_outcome->next->persists = persists;
	return status;
}
