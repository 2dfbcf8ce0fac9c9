/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Describes a reservation to operators: the fields of REST answers and of `weft ctl`, and the names
 * of the types that both print.
 *
 * Control reactor; the registrants stay valid until its next turn.
 */
#include "ns/reservation.h"

#include "base/check.h"

void reservation_describe(const struct ns_live *live, struct reservation_info *ret_info)
{
	const struct reservation *reservation = ns_live_reservation(live);

	*ret_info = (struct reservation_info){0};
	if (!reservation)
		return;
	*ret_info = (struct reservation_info){
		.type = reservation->type,
		.has_holder = reservation_is_held(reservation) &&
			      !reservation_is_held_by_all(reservation),
		.holder = reservation->holder,
		.generation = reservation->generation,
		.persists = reservation->persists,
		.registrant_count = reservation->count,
		.registrants = reservation->registrants,
	};
}

const char *reservation_type_name(enum reservation_type type)
{
	static const char *const names[] = {
		[RESERVATION_NONE] = "none",
		[RESERVATION_WRITE_EXCLUSIVE] = "write-exclusive",
		[RESERVATION_EXCLUSIVE_ACCESS] = "exclusive-access",
		[RESERVATION_WRITE_EXCLUSIVE_REGISTRANTS] = "write-exclusive-registrants-only",
		[RESERVATION_EXCLUSIVE_ACCESS_REGISTRANTS] = "exclusive-access-registrants-only",
		[RESERVATION_WRITE_EXCLUSIVE_ALL] = "write-exclusive-all-registrants",
		[RESERVATION_EXCLUSIVE_ACCESS_ALL] = "exclusive-access-all-registrants",
	};

	return type < ARRAY_LEN(names) ? names[type] : "unknown";
}
