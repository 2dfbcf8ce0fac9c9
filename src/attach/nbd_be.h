/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Big-endian numbers at unaligned addresses, for the NBD protocol. NVMe is little-endian and uses
 * base/le.h.
 */
#ifndef WEFT_ATTACH_NBD_BE_H
#define WEFT_ATTACH_NBD_BE_H

#include <endian.h>
#include <stdint.h>
#include <string.h>

static inline uint16_t nbd_get_u16(const uint8_t *at)
{
	uint16_t value;

	memcpy(&value, at, sizeof(value));
	return be16toh(value);
}

static inline uint32_t nbd_get_u32(const uint8_t *at)
{
	uint32_t value;

	memcpy(&value, at, sizeof(value));
	return be32toh(value);
}

static inline uint64_t nbd_get_u64(const uint8_t *at)
{
	uint64_t value;

	memcpy(&value, at, sizeof(value));
	return be64toh(value);
}

static inline void nbd_put_u16(uint8_t *at, uint16_t value)
{
	value = htobe16(value);
	memcpy(at, &value, sizeof(value));
}

static inline void nbd_put_u32(uint8_t *at, uint32_t value)
{
	value = htobe32(value);
	memcpy(at, &value, sizeof(value));
}

static inline void nbd_put_u64(uint8_t *at, uint64_t value)
{
	value = htobe64(value);
	memcpy(at, &value, sizeof(value));
}

#endif
