/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The kept form of a reservation that persists through power loss: a header, the registrants in
 * ascending order, a checksum; little-endian. Pure; control reactor.
 *
 * A kept value is checked like untrusted input: a reservation that the rules never produce is
 * refused, because it could wrongly open or close a namespace.
 */
#include "ns/reservation.h"

#include "base/crc32c.h"
#include "base/le.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#define BLOB_MAGIC   0x31767352 /* "Rsv1" */
#define BLOB_PERSIST 1u

struct blob_header {
	le32 magic;
	le32 generation;
	uint8_t type;
	uint8_t flags;
	uint8_t rsvd[2];
	le32 count;
	struct uuid holder;
};

struct blob_registrant {
	struct uuid host_id;
	le64 key;
};

_Static_assert(sizeof(struct blob_header) == 32, "no padding");
_Static_assert(sizeof(struct blob_registrant) == 24, "no padding");

static size_t blob_bytes(uint64_t count)
{
	return sizeof(struct blob_header) + count * sizeof(struct blob_registrant) + sizeof(le32);
}

int reservation_encode(const struct reservation *reservation, void **ret_value, size_t *ret_bytes)
{
	size_t bytes = blob_bytes(reservation->count);
	uint8_t *value = malloc(bytes), *at = value;
	struct blob_header header = {
		.magic = le32_of(BLOB_MAGIC),
		.generation = le32_of(reservation->generation),
		.type = (uint8_t)reservation->type,
		.flags = reservation->persists ? BLOB_PERSIST : 0,
		.count = le32_of(reservation->count),
		.holder = reservation->holder,
	};
	le32 sum;

	if (!value)
		return -ENOMEM;
	memcpy(at, &header, sizeof(header));
	at += sizeof(header);
	for (uint32_t i = 0; i < reservation->count; i++) {
		struct blob_registrant entry = {
			.host_id = reservation->registrants[i].host_id,
			.key = le64_of(reservation->registrants[i].key),
		};

		memcpy(at, &entry, sizeof(entry));
		at += sizeof(entry);
	}
	sum = le32_of(crc32c(value, bytes - sizeof(sum)));
	memcpy(at, &sum, sizeof(sum));
	*ret_value = value;
	*ret_bytes = bytes;
	return 0;
}

static bool blob_header_ok(const uint8_t *value, size_t value_bytes, struct blob_header *ret_header)
{
	le32 sum;

	if (value_bytes < blob_bytes(0))
		return false;
	memcpy(ret_header, value, sizeof(*ret_header));
	if (le32_get(ret_header->magic) != BLOB_MAGIC ||
	    value_bytes != blob_bytes(le32_get(ret_header->count)))
		return false;
	memcpy(&sum, value + value_bytes - sizeof(sum), sizeof(sum));
	return le32_get(sum) == crc32c(value, value_bytes - sizeof(sum));
}

/* False: a reservation that the rules never produce. */
static bool reservation_makes_sense(const struct reservation *reservation)
{
	const struct registrant *registrants = reservation->registrants;

	for (uint32_t i = 0; i < reservation->count; i++) {
		if (registrants[i].key == 0)
			return false;
		if (i > 0 && memcmp(&registrants[i - 1].host_id, &registrants[i].host_id,
				    sizeof(registrants[i].host_id)) >= 0)
			return false;
	}
	if (reservation->type > RESERVATION_TYPE_MAX)
		return false;
	if (!reservation_is_held(reservation))
		return uuid_is_nil(&reservation->holder);
	if (reservation_is_held_by_all(reservation))
		return uuid_is_nil(&reservation->holder) && reservation->count > 0;
	return reservation_find(reservation, &reservation->holder) != NULL;
}

int reservation_decode(const void *value, size_t value_bytes, struct reservation **ret_reservation)
{
	const uint8_t *at = value;
	struct reservation *reservation;
	struct blob_header header;
	uint32_t count;

	if (!blob_header_ok(at, value_bytes, &header))
		return -EPROTO;
	at += sizeof(header);
	count = le32_get(header.count);
	reservation = calloc(1, sizeof(*reservation) + count * sizeof(reservation->registrants[0]));
	if (!reservation)
		return -ENOMEM;
	reservation->refs = 1;
	reservation->generation = le32_get(header.generation);
	reservation->type = header.type;
	reservation->persists = (header.flags & BLOB_PERSIST) != 0;
	reservation->holder = header.holder;
	reservation->count = count;
	for (uint32_t i = 0; i < count; i++) {
		struct blob_registrant entry;

		memcpy(&entry, at, sizeof(entry));
		at += sizeof(entry);
		reservation->registrants[i].host_id = entry.host_id;
		reservation->registrants[i].key = le64_get(entry.key);
	}
	if (!reservation_makes_sense(reservation)) {
		free(reservation);
		return -EPROTO;
	}
	*ret_reservation = reservation;
	return 0;
}
