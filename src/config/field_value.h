/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Reads and writes the values of fields in the structs that the tables describe, by kind. Private
 * to config/fields*.c.
 */
#ifndef WEFT_CONFIG_FIELD_VALUE_H
#define WEFT_CONFIG_FIELD_VALUE_H

#include "config/fields.h"

#include <string.h>

#define FIELD_ID_BYTES 16

static inline void *field_value(const struct config_field *field, void *of)
{
	return (uint8_t *)of + field->offset;
}

static inline const void *field_const_value(const struct config_field *field, const void *of)
{
	return (const uint8_t *)of + field->offset;
}

static inline unsigned field_count(const struct config_field *field, const void *of)
{
	unsigned count;

	memcpy(&count, (const uint8_t *)of + field->count_offset, sizeof(count));
	return count;
}

static inline char *field_text(const struct config_field *field, const void *of)
{
	char *text;

	memcpy(&text, field_const_value(field, of), sizeof(text));
	return text;
}

static inline void *field_names(const struct config_field *field, const void *of)
{
	void *names;

	memcpy(&names, field_const_value(field, of), sizeof(names));
	return names;
}

/* Numbers, booleans and words, whose members have 1, 2 or 4 bytes. */
static inline uint32_t field_number_get(const void *from, size_t bytes)
{
	uint8_t u8;
	uint16_t u16;
	uint32_t u32;

	switch (bytes) {
	case 1:
		memcpy(&u8, from, sizeof(u8));
		return u8;
	case 2:
		memcpy(&u16, from, sizeof(u16));
		return u16;
	default:
		memcpy(&u32, from, sizeof(u32));
		return u32;
	}
}

static inline void field_number_set(void *to, size_t bytes, uint32_t number)
{
	uint8_t u8 = (uint8_t)number;
	uint16_t u16 = (uint16_t)number;

	if (bytes == 1)
		memcpy(to, &u8, sizeof(u8));
	else if (bytes == 2)
		memcpy(to, &u16, sizeof(u16));
	else
		memcpy(to, &number, sizeof(number));
}

/* 0: the value is not a number. */
static inline size_t field_number_bytes(const struct config_field *field)
{
	_Static_assert(sizeof(bool) == 1 && sizeof(enum zero_copy) == 4,
		       "as field_number_get reads them");
	switch (field->kind) {
	case FIELD_BOOL:
		return 1;
	case FIELD_U16:
		return 2;
	case FIELD_U32:
	case FIELD_WORD:
		return 4;
	default:
		return 0;
	}
}

#endif
