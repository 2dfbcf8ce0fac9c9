/* SPDX-License-Identifier: Apache-2.0 */
/*
 * CRC32C (polynomial 0x1edc6f41, reflected) for NVMe/TCP header and data digests: NVMe/TCP
 * Transport Specification, section 3.3.1.
 *
 * Any thread; pure. ISA-L picks the fastest code for the machine. A build without ISA-L uses the
 * table-driven code below, which the unit test compares with ISA-L. The table-driven code reads 4
 * bytes per step.
 */
#include "base/crc32c.h"

#include <limits.h>
#include <string.h>

#if __has_include(<isa-l/crc.h>) && !defined(WEFT_WITHOUT_ISAL)
#include <isa-l/crc.h>
#define CRC32C_BY_ISAL 1
#else
#define CRC32C_BY_ISAL 0
#endif

#define CRC32C_POLYNOMIAL_REFLECTED 0x82f63b78u

static uint32_t crc32c_table[4][256];

/* Runs before main, so that no thread sees a half-filled table. */
__attribute__((constructor)) static void crc32c_table_fill(void)
{
	for (uint32_t byte = 0; byte < 256; byte++) {
		uint32_t crc = byte;

		for (unsigned bit = 0; bit < 8; bit++)
			crc = crc >> 1 ^ (crc & 1 ? CRC32C_POLYNOMIAL_REFLECTED : 0);
		crc32c_table[0][byte] = crc;
	}
	for (unsigned row = 1; row < 4; row++) {
		for (unsigned byte = 0; byte < 256; byte++) {
			uint32_t crc = crc32c_table[row - 1][byte];

			crc32c_table[row][byte] = crc >> 8 ^ crc32c_table[0][crc & 0xff];
		}
	}
}

uint32_t crc32c_update_portable(uint32_t running, const void *data, size_t len_bytes)
{
	const uint8_t *at = data;

	for (; len_bytes >= 4; at += 4, len_bytes -= 4) {
		running ^= (uint32_t)at[0] | (uint32_t)at[1] << 8 | (uint32_t)at[2] << 16 |
			   (uint32_t)at[3] << 24;
		running = crc32c_table[3][running & 0xff] ^ crc32c_table[2][running >> 8 & 0xff] ^
			  crc32c_table[1][running >> 16 & 0xff] ^ crc32c_table[0][running >> 24];
	}
	for (; len_bytes > 0; at++, len_bytes--)
		running = running >> 8 ^ crc32c_table[0][(running ^ *at) & 0xff];
	return running;
}

uint32_t crc32c_update(uint32_t running, const void *data, size_t len_bytes)
{
#if CRC32C_BY_ISAL
	const uint8_t *at = data;

	/* ISA-L takes an int length, and does not write through its non-const pointer. */
	while (len_bytes > INT_MAX) {
		running = crc32_iscsi((unsigned char *)(uintptr_t)at, INT_MAX, running);
		at += INT_MAX;
		len_bytes -= INT_MAX;
	}
	return crc32_iscsi((unsigned char *)(uintptr_t)at, (int)len_bytes, running);
#else
	return crc32c_update_portable(running, data, len_bytes);
#endif
}
