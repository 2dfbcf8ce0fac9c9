/* SPDX-License-Identifier: Apache-2.0 */
/* Payload whose bytes encode their PDU and their offset, so that each can be checked. */
#ifndef WEFT_TESTS_PAYLOAD_H
#define WEFT_TESTS_PAYLOAD_H

#include <stdbool.h>
#include <stdint.h>
#include <string.h>

static inline uint32_t payload_word(unsigned number, uint32_t index)
{
	return (number + 1) * 2654435761u ^ index * 0x9e3779b1u;
}

static inline void payload_fill(uint8_t *buf, unsigned number, uint32_t len_bytes)
{
	for (uint32_t i = 0; i < len_bytes / 4; i++) {
		uint32_t word = payload_word(number, i);

		memcpy(buf + i * 4, &word, 4);
	}
}

static inline bool payload_matches(const uint8_t *buf, unsigned number, uint32_t len_bytes)
{
	for (uint32_t i = 0; i < len_bytes / 4; i++) {
		uint32_t word = payload_word(number, i);

		if (memcmp(buf + i * 4, &word, 4) != 0)
			return false;
	}
	return true;
}

#endif
