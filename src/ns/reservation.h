/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The reservation of a namespace: its registrants, its holder, and what other hosts may do. NVMe
 * Base 2.1, section 8.1.22.
 *
 * A registrant is a host (its identifier): all controllers of that host share the registration. A
 * struct reservation is immutable and counted. Every command that changes it makes a new one, so
 * the truth on the control reactor, the view of reactors, and the former one (in case the new one
 * cannot be kept) are only pointers. The rules are pure; target/cmd_reservation.c passes commands
 * to them and publishes the outcome to every reactor.
 */
#ifndef WEFT_NS_RESERVATION_H
#define WEFT_NS_RESERVATION_H

#include "ns/ns_live.h"
#include "wire/nvme.h"
#include "wire/reservation.h"

struct registrant {
	struct uuid host_id;
	uint64_t key; /* not 0 */
};

struct reservation {
	unsigned refs; /* control reactor; all other fields are immutable */
	uint32_t generation;
	enum reservation_type type; /* RESERVATION_NONE: not held */
	bool persists;              /* PTPL */
	struct uuid holder;         /* nil: not held, or held by all registrants */
	uint32_t count;
	struct registrant registrants[]; /* ascending host_id, each once */
};

/* Control reactor. NULL is allowed. */
struct reservation *reservation_get(struct reservation *reservation);
void reservation_put(struct reservation *reservation);

static inline bool reservation_is_held(const struct reservation *reservation)
{
	return reservation->type != RESERVATION_NONE;
}

static inline bool reservation_is_held_by_all(const struct reservation *reservation)
{
	return reservation->type == RESERVATION_WRITE_EXCLUSIVE_ALL ||
	       reservation->type == RESERVATION_EXCLUSIVE_ACCESS_ALL;
}

/* NULL: the host is not registered. */
const struct registrant *reservation_find(const struct reservation *reservation,
					  const struct uuid *host_id);
bool reservation_is_holder(const struct reservation *reservation,
			   const struct registrant *registrant);

/* ---- kept values: reservation_blob.c -------------------------------------------------------- */

/* The caller frees *ret_value. 0 or -ENOMEM. */
int reservation_encode(const struct reservation *reservation, void **ret_value, size_t *ret_bytes);
/* 0, -ENOMEM, or -EPROTO: the value is damaged or was not made by reservation_encode. */
int reservation_decode(const void *value, size_t value_bytes, struct reservation **ret_reservation);

/* ---- the rules: reservation.c ---------------------------------------------------------------- */

/* A notification for another host. */
struct reservation_notice {
	struct uuid host_id;
	enum reservation_notice_type type;
};

struct reservation_outcome {
	struct reservation *next; /* holds a reference; NULL: nothing changed */
	struct reservation_notice *notices;
	unsigned notice_count;
	bool aborts; /* abort commands of hosts whose registration was preempted */
};

/*
 * Applies the command of this host to `now` (NULL: no host ever registered). On success the caller
 * frees the outcome with reservation_outcome_free; otherwise the outcome is empty.
 * NVME_SC_INTERNAL: out of memory.
 */
nvme_status reservation_register(const struct reservation *now, const struct uuid *host_id,
				 const struct register_cmd *cmd,
				 struct reservation_outcome *ret_outcome);
nvme_status reservation_acquire(const struct reservation *now, const struct uuid *host_id,
				const struct acquire_cmd *cmd,
				struct reservation_outcome *ret_outcome);
nvme_status reservation_release(const struct reservation *now, const struct uuid *host_id,
				const struct release_cmd *cmd,
				struct reservation_outcome *ret_outcome);
/* Feature 83h, Reservation Persistence. */
nvme_status reservation_set_persist(const struct reservation *now, bool persists,
				    struct reservation_outcome *ret_outcome);
/* For an administrator: removes the reservation and all registrants, as Clear does. */
nvme_status reservation_clear_all(const struct reservation *now,
				  struct reservation_outcome *ret_outcome);
void reservation_outcome_free(struct reservation_outcome *outcome);

/* ---- checks of commands: reservation_judge.c ------------------------------------------------ */

enum reservation_group {
	RESERVATION_GROUP_NONE,  /* not subject to reservations */
	RESERVATION_GROUP_READ,  /* Read, Compare, Verify, the sources of Copy */
	RESERVATION_GROUP_WRITE, /* all that changes data, and Flush */
};

enum reservation_group reservation_group_io(uint8_t opcode);
enum reservation_group reservation_group_admin(uint8_t opcode);
/* NVME_SC_RESERVATION_CONFLICT, or success. `reservation` NULL: success. */
nvme_status reservation_judge(const struct reservation *reservation, const struct uuid *host_id,
			      enum reservation_group group);

/* ---- for operators: reservation_describe.c, control reactor --------------------------------- */

struct reservation_info {
	enum reservation_type type;
	bool has_holder;    /* held by one host alone */
	struct uuid holder; /* if has_holder */
	uint32_t generation;
	bool persists;
	uint32_t registrant_count;
	const struct registrant *registrants; /* valid until the control reactor's next turn */
};

void reservation_describe(const struct ns_live *live, struct reservation_info *ret_info);
/* "write-exclusive", "exclusive-access-all-registrants", ...; "none". */
const char *reservation_type_name(enum reservation_type type);
#endif
