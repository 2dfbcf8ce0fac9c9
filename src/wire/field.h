/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Fields of wire structures by byte offset; for use in wire/ only. The big, sparse pages of
 * Identify and Get Log Page are written as "offset, value", like the specification's tables. Text
 * fields are ASCII, padded with spaces on the right (NVMe Base 2.1, section 1.4.2).
 */
#ifndef WEFT_WIRE_FIELD_H
#define WEFT_WIRE_FIELD_H

#include "base/le.h"

#include <stddef.h>
#include <stdint.h>
#include <string.h>

static inline void field_put16(uint8_t *bytes, size_t offset, uint16_t value)
{
	le16 raw = le16_of(value);

	memcpy(bytes + offset, &raw, sizeof(raw));
}

static inline void field_put32(uint8_t *bytes, size_t offset, uint32_t value)
{
	le32 raw = le32_of(value);

	memcpy(bytes + offset, &raw, sizeof(raw));
}

static inline void field_put64(uint8_t *bytes, size_t offset, uint64_t value)
{
	le64 raw = le64_of(value);

	memcpy(bytes + offset, &raw, sizeof(raw));
}

static inline uint16_t field_get16(const uint8_t *bytes, size_t offset)
{
	le16 raw;

	memcpy(&raw, bytes + offset, sizeof(raw));
	return le16_get(raw);
}

static inline uint32_t field_get32(const uint8_t *bytes, size_t offset)
{
	le32 raw;

	memcpy(&raw, bytes + offset, sizeof(raw));
	return le32_get(raw);
}

static inline uint64_t field_get64(const uint8_t *bytes, size_t offset)
{
	le64 raw;

	memcpy(&raw, bytes + offset, sizeof(raw));
	return le64_get(raw);
}

/* Truncates a longer string; pads a shorter one with spaces. */
static inline void field_put_text(uint8_t *bytes, size_t offset, size_t field_bytes,
				  const char *text)
{
	size_t text_bytes = strnlen(text, field_bytes);

	memcpy(bytes + offset, text, text_bytes);
	memset(bytes + offset + text_bytes, ' ', field_bytes - text_bytes);
}

/* Copies a field to a terminated string, up to the first zero byte or the last character that is
 * not a space. */
static inline void field_get_text(const uint8_t *bytes, size_t offset, size_t field_bytes,
				  char *text, size_t room_bytes)
{
	size_t n = strnlen((const char *)bytes + offset, field_bytes);

	while (n > 0 && bytes[offset + n - 1] == ' ')
		n--;
	if (n > room_bytes - 1)
		n = room_bytes - 1;
	memcpy(text, bytes + offset, n);
	text[n] = '\0';
}

#endif
