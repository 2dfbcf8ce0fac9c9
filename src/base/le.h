/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Little-endian integers as they are on the wire.
 *
 * One-member structs of bytes: the compiler refuses to mix them with host integers, their alignment
 * is 1, so that a layout made of them has no padding, and they may be copied to any address.
 */
#ifndef WEFT_BASE_LE_H
#define WEFT_BASE_LE_H

#include <endian.h>
#include <stdint.h>
#include <string.h>

typedef struct {
	uint8_t bytes[2];
} le16;

typedef struct {
	uint8_t bytes[4];
} le32;

typedef struct {
	uint8_t bytes[8];
} le64;

static inline uint16_t le16_get(le16 v)
{
	uint16_t raw;

	memcpy(&raw, v.bytes, sizeof(raw));
	return le16toh(raw);
}

static inline uint32_t le32_get(le32 v)
{
	uint32_t raw;

	memcpy(&raw, v.bytes, sizeof(raw));
	return le32toh(raw);
}

static inline uint64_t le64_get(le64 v)
{
	uint64_t raw;

	memcpy(&raw, v.bytes, sizeof(raw));
	return le64toh(raw);
}

static inline le16 le16_of(uint16_t host)
{
	le16 v;
	uint16_t raw = htole16(host);

	memcpy(v.bytes, &raw, sizeof(raw));
	return v;
}

static inline le32 le32_of(uint32_t host)
{
	le32 v;
	uint32_t raw = htole32(host);

	memcpy(v.bytes, &raw, sizeof(raw));
	return v;
}

static inline le64 le64_of(uint64_t host)
{
	le64 v;
	uint64_t raw = htole64(host);

	memcpy(v.bytes, &raw, sizeof(raw));
	return v;
}

#endif
