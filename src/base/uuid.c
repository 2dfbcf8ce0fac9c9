/* SPDX-License-Identifier: Apache-2.0 */
/*
 * UUIDs: RFC 9562, version 4 (random) and version 8 (here: 128-bit FNV-1a of a name, then a mix
 * that spreads every input bit over all output bits).
 *
 * Any thread. The derived form is an identity, not a secret. It must never change: namespaces keep
 * their UUIDs over restarts and upgrades.
 */
#include "base/uuid.h"

#include "base/check.h"

#include <errno.h>
#include <string.h>
#include <sys/random.h>

static void uuid_stamp(struct uuid *uuid, unsigned version)
{
	uuid->bytes[6] = (uint8_t)((uuid->bytes[6] & 0x0f) | version << 4);
	uuid->bytes[8] = (uint8_t)((uuid->bytes[8] & 0x3f) | 0x80); /* RFC 9562, 4.1: variant */
}

void uuid_random(struct uuid *ret_uuid)
{
	ssize_t got;

	do {
		got = getrandom(ret_uuid->bytes, sizeof(ret_uuid->bytes), 0);
	} while (got < 0 && errno == EINTR);
	CHECK(got == (ssize_t)sizeof(ret_uuid->bytes));
	uuid_stamp(ret_uuid, 4);
}

static uint64_t uuid_mix(uint64_t value)
{
	value = (value ^ value >> 33) * 0xff51afd7ed558ccdull;
	value = (value ^ value >> 33) * 0xc4ceb9fe1a85ec53ull;
	return value ^ value >> 33;
}

void uuid_from_name(const char *name, struct uuid *ret_uuid)
{
	const unsigned __int128 prime = (unsigned __int128)1 << 88 | 0x13b;
	unsigned __int128 hash =
		(unsigned __int128)0x6c62272e07bb0142ull << 64 | 0x62b821756295c58dull;
	uint64_t high, low;

	for (const char *at = name; *at != 0; at++)
		hash = (hash ^ (uint8_t)*at) * prime;
	high = (uint64_t)(hash >> 64);
	low = (uint64_t)hash;
	low = uuid_mix(low ^ high);
	high = uuid_mix(high + low);
	for (unsigned i = 0; i < 8; i++) {
		ret_uuid->bytes[i] = (uint8_t)(high >> (56 - 8 * i));
		ret_uuid->bytes[8 + i] = (uint8_t)(low >> (56 - 8 * i));
	}
	uuid_stamp(ret_uuid, 8);
}

static int uuid_nibble(char c)
{
	if (c >= '0' && c <= '9')
		return c - '0';
	if (c >= 'a' && c <= 'f')
		return c - 'a' + 10;
	if (c >= 'A' && c <= 'F')
		return c - 'A' + 10;
	return -1;
}

int uuid_parse(const char *text, struct uuid *ret_uuid)
{
	struct uuid uuid;
	unsigned at = 0;

	if (strlen(text) != UUID_TEXT_BYTES - 1)
		return -EINVAL;
	for (unsigned i = 0; i < sizeof(uuid.bytes); i++) {
		int high, low;

		if (at == 8 || at == 13 || at == 18 || at == 23) {
			if (text[at++] != '-')
				return -EINVAL;
		}
		high = uuid_nibble(text[at++]);
		low = uuid_nibble(text[at++]);
		if (high < 0 || low < 0)
			return -EINVAL;
		uuid.bytes[i] = (uint8_t)(high << 4 | low);
	}
	*ret_uuid = uuid;
	return 0;
}

const char *uuid_format(const struct uuid *uuid, char text[UUID_TEXT_BYTES])
{
	static const char digits[] = "0123456789abcdef";
	unsigned at = 0;

	for (unsigned i = 0; i < sizeof(uuid->bytes); i++) {
		if (i == 4 || i == 6 || i == 8 || i == 10)
			text[at++] = '-';
		text[at++] = digits[uuid->bytes[i] >> 4];
		text[at++] = digits[uuid->bytes[i] & 0xf];
	}
	text[at] = 0;
	return text;
}

bool uuid_is_nil(const struct uuid *uuid)
{
	static const struct uuid nil;

	return uuid_equal(uuid, &nil);
}

bool uuid_equal(const struct uuid *a, const struct uuid *b)
{
	return memcmp(a->bytes, b->bytes, sizeof(a->bytes)) == 0;
}
