/* SPDX-License-Identifier: Apache-2.0 */
/*
 * RFC 9562 identifiers: random (version 4) and derived from a name (version 8, by a 128-bit mix
 * of FNV-1a), so that a namespace keeps its identity from one start to the next.
 */
#ifndef WEFT_BASE_UUID_H
#define WEFT_BASE_UUID_H

#include <stdbool.h>
#include <stdint.h>

#define UUID_TEXT_BYTES 37

struct uuid {
	uint8_t bytes[16];
};

void uuid_random(struct uuid *ret_uuid);
void uuid_from_name(const char *name, struct uuid *ret_uuid);
/* 0 or -EINVAL. */
int uuid_parse(const char *text, struct uuid *ret_uuid);
const char *uuid_format(const struct uuid *uuid, char text[UUID_TEXT_BYTES]);
bool uuid_is_nil(const struct uuid *uuid);
bool uuid_equal(const struct uuid *a, const struct uuid *b);

#endif
