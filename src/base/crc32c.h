/* SPDX-License-Identifier: Apache-2.0 */
/*
 * CRC32C as NVMe/TCP digests use it (initial value and final inversion included), by ISA-L.
 */
#ifndef WEFT_BASE_CRC32C_H
#define WEFT_BASE_CRC32C_H

#include <stddef.h>
#include <stdint.h>

#define CRC32C_START 0xffffffffu

/* Running form: start with CRC32C_START, feed pieces, finish with crc32c_finish. */
uint32_t crc32c_update(uint32_t running, const void *data, size_t len_bytes);
/* crc32c_update in plain C: for builds without ISA-L, and for the test that compares both. */
uint32_t crc32c_update_portable(uint32_t running, const void *data, size_t len_bytes);

static inline uint32_t crc32c_finish(uint32_t running)
{
	return ~running;
}

static inline uint32_t crc32c(const void *data, size_t len_bytes)
{
	return crc32c_finish(crc32c_update(CRC32C_START, data, len_bytes));
}

#endif
