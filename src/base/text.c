/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Strings: parsing numbers, sizes and durations; UTF-8, escaping, and parts of a URL.
 *
 * Any thread; pure. Parsing is strict: no sign, no blanks, nothing after the number, and an
 * overflow is an error rather than a wrapped value.
 */
#include "base/text.h"

#include "base/check.h"

#include <ctype.h>
#include <errno.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#define TEXT_ESCAPE_ONE_BYTES 16 /* "\\udb40\\udc01" and a NUL */

static int text_digit(char c, unsigned base)
{
	int digit = -1;

	if (c >= '0' && c <= '9')
		digit = c - '0';
	else if (c >= 'a' && c <= 'f')
		digit = c - 'a' + 10;
	else if (c >= 'A' && c <= 'F')
		digit = c - 'A' + 10;
	return digit < (int)base ? digit : -1;
}

/* Reads the digits at *at and advances *at. -EINVAL without a digit, -ERANGE beyond 64 bits. */
static int text_take_number(const char **at, unsigned base, uint64_t *ret_value)
{
	const char *p = *at;
	uint64_t value = 0;
	bool is_too_big = false;
	int digit;

	if (text_digit(*p, base) < 0)
		return -EINVAL;
	for (; (digit = text_digit(*p, base)) >= 0; p++) {
		is_too_big |= __builtin_mul_overflow(value, base, &value);
		is_too_big |= __builtin_add_overflow(value, (uint64_t)digit, &value);
	}
	*at = p;
	*ret_value = value;
	return is_too_big ? -ERANGE : 0;
}

int text_parse_u64(const char *text, uint64_t max, uint64_t *ret_value)
{
	unsigned base = 10;
	uint64_t value = 0;
	int res;

	if (text[0] == '0' && (text[1] == 'x' || text[1] == 'X')) {
		base = 16;
		text += 2;
	}
	res = text_take_number(&text, base, &value);
	if (res == -EINVAL || *text != 0)
		return -EINVAL;
	if (res == -ERANGE || value > max)
		return -ERANGE;
	*ret_value = value;
	return 0;
}

struct text_unit {
	const char *name;
	uint64_t factor;
};

/* Parses a number followed by one of the units. "" is the unit of a number without one. */
static int text_parse_with_unit(const char *text, const struct text_unit *units, size_t unit_count,
				uint64_t *ret_value)
{
	uint64_t value = 0;
	int res = text_take_number(&text, 10, &value);

	if (res == -EINVAL)
		return -EINVAL;
	for (size_t i = 0; i < unit_count; i++) {
		if (strcasecmp(text, units[i].name) != 0)
			continue;
		if (res == -ERANGE || __builtin_mul_overflow(value, units[i].factor, &value))
			return -ERANGE;
		*ret_value = value;
		return 0;
	}
	return -EINVAL;
}

int text_parse_size(const char *text, uint64_t *ret_bytes)
{
	static const struct text_unit units[] = {
		{"", 1},
		{"B", 1},
		{"K", 1ull << 10},
		{"KiB", 1ull << 10},
		{"KB", 1000ull},
		{"M", 1ull << 20},
		{"MiB", 1ull << 20},
		{"MB", 1000000ull},
		{"G", 1ull << 30},
		{"GiB", 1ull << 30},
		{"GB", 1000000000ull},
		{"T", 1ull << 40},
		{"TiB", 1ull << 40},
		{"TB", 1000000000000ull},
	};

	return text_parse_with_unit(text, units, ARRAY_LEN(units), ret_bytes);
}

/* Reads the point and the digits at *at, in units of 10^-9, and advances *at. Without a point:
 * 0. */
static int text_take_fraction(const char **at, uint64_t *ret_billionths)
{
	uint64_t scale = 100000000;
	const char *p = *at;

	*ret_billionths = 0;
	if (*p != '.')
		return 0;
	if (text_digit(*++p, 10) < 0)
		return -EINVAL;
	for (; text_digit(*p, 10) >= 0; p++, scale /= 10) {
		if (scale == 0)
			return -EINVAL;
		*ret_billionths += (uint64_t)text_digit(*p, 10) * scale;
	}
	*at = p;
	return 0;
}

int text_parse_duration_ms(const char *text, uint64_t *ret_ms)
{
	static const struct text_unit units[] = {
		{"", 1000}, {"ms", 1}, {"s", 1000}, {"m", 60000}, {"h", 3600000},
	};
	uint64_t value = 0, billionths;
	int res = text_take_number(&text, 10, &value);

	if (res == -EINVAL || text_take_fraction(&text, &billionths) != 0)
		return -EINVAL;
	for (size_t i = 0; i < ARRAY_LEN(units); i++) {
		if (strcasecmp(text, units[i].name) != 0)
			continue;
		if (res == -ERANGE || __builtin_mul_overflow(value, units[i].factor, &value) ||
		    __builtin_add_overflow(
			    value, (billionths * units[i].factor + 999999999) / 1000000000, &value))
			return -ERANGE;
		*ret_ms = value;
		return 0;
	}
	return -EINVAL;
}

const char *text_format_size(uint64_t bytes, char *text, size_t text_bytes)
{
	static const char *const units[] = {"B", "KiB", "MiB", "GiB", "TiB", "PiB", "EiB"};
	unsigned unit = 0;
	uint64_t whole, tenth;

	while (unit + 1 < ARRAY_LEN(units) && bytes >> (10 * (unit + 1)) != 0)
		unit++;
	whole = bytes >> (10 * unit);
	/* Tenths of a unit beyond the whole units, rounded down. */
	tenth = unit == 0 ? 0 : (bytes >> (10 * (unit - 1)) & 1023) * 10 / 1024;
	if (tenth == 0)
		snprintf(text, text_bytes, "%llu %s", (unsigned long long)whole, units[unit]);
	else
		snprintf(text, text_bytes, "%llu.%llu %s", (unsigned long long)whole,
			 (unsigned long long)tenth, units[unit]);
	return text;
}

size_t text_copy(char *to, size_t to_bytes, const char *from)
{
	size_t len = strlen(from);
	size_t copied = len < to_bytes ? len : to_bytes - 1;

	CHECK(to_bytes > 0);
	memcpy(to, from, copied);
	to[copied] = 0;
	return len;
}

size_t text_utf8_bytes(const char *text)
{
	const uint8_t *s = (const uint8_t *)text;
	uint8_t low = 0x80, high = 0xbf;
	size_t n;

	if (s[0] < 0x80)
		return 1;
	if (s[0] >= 0xc2 && s[0] <= 0xdf)
		n = 2;
	else if ((s[0] & 0xf0) == 0xe0)
		n = 3;
	else if (s[0] >= 0xf0 && s[0] <= 0xf4)
		n = 4;
	else
		return 0;
	/* No overlong forms, no surrogates, nothing above U+10FFFF. */
	if (s[0] == 0xe0)
		low = 0xa0;
	else if (s[0] == 0xed)
		high = 0x9f;
	else if (s[0] == 0xf0)
		low = 0x90;
	else if (s[0] == 0xf4)
		high = 0x8f;
	if (s[1] < low || s[1] > high)
		return 0;
	for (size_t i = 2; i < n; i++) {
		if ((s[i] & 0xc0) != 0x80)
			return 0;
	}
	return n;
}

static uint32_t utf8_code(const char *text, size_t bytes)
{
	static const uint8_t first_mask[] = {0, 0x7f, 0x1f, 0x0f, 0x07};
	uint32_t code = (uint8_t)text[0] & first_mask[bytes];

	for (size_t i = 1; i < bytes; i++)
		code = code << 6 | ((uint8_t)text[i] & 0x3f);
	return code;
}

/* False for characters that a terminal acts on, or that make one string look like another (Unicode:
 * Cc, Zl, Zp, and those of Cf that change direction or are invisible). */
static bool code_is_shown(uint32_t code)
{
	static const struct {
		uint32_t first;
		uint32_t last;
	} hidden[] = {
		{0x00, 0x1f},       {0x7f, 0x9f},       {0xad, 0xad},        {0x61c, 0x61c},
		{0x180e, 0x180e},   {0x200b, 0x200f},   {0x2028, 0x202e},    {0x2060, 0x206f},
		{0xfe00, 0xfe0f},   {0xfeff, 0xfeff},   {0xfff0, 0xfffb},    {0xfffe, 0xffff},
		{0x1d173, 0x1d17a}, {0xe0000, 0xe0fff}, {0xf0000, 0x10ffff},
	};

	for (size_t i = 0; i < ARRAY_LEN(hidden); i++)
		if (code >= hidden[i].first && code <= hidden[i].last)
			return false;
	return true;
}

/* Escapes one character, or one byte that is not UTF-8. Returns the bytes of `from` that were
 * used. */
static size_t escape_one(const char *from, char shown[TEXT_ESCAPE_ONE_BYTES])
{
	size_t bytes = text_utf8_bytes(from);
	uint32_t code;

	if (bytes == 0) {
		snprintf(shown, TEXT_ESCAPE_ONE_BYTES, "\\x%02x", (uint8_t)from[0]);
		return 1;
	}
	code = utf8_code(from, bytes);
	if (code_is_shown(code))
		snprintf(shown, TEXT_ESCAPE_ONE_BYTES, "%.*s", (int)bytes, from);
	else if (code <= 0xffff)
		snprintf(shown, TEXT_ESCAPE_ONE_BYTES, "\\u%04x", code);
	else
		snprintf(shown, TEXT_ESCAPE_ONE_BYTES, "\\u%04x\\u%04x",
			 0xd800 + ((code - 0x10000) >> 10), 0xdc00 + ((code - 0x10000) & 0x3ff));
	return bytes;
}

char *text_escape(const char *from, char *to, size_t to_bytes)
{
	char shown[TEXT_ESCAPE_ONE_BYTES];
	size_t used = 0;

	CHECK(to_bytes > 0);
	while (*from != 0) {
		size_t taken = escape_one(from, shown);
		size_t len = strlen(shown);

		if (used + len >= to_bytes)
			break;
		memcpy(to + used, shown, len);
		used += len;
		from += taken;
	}
	to[used] = 0;
	return to;
}

char *text_escape_dup(const char *from)
{
	/* The longest escape of one byte is \u001b. */
	size_t bytes = 6 * strlen(from) + 1;
	char *to = malloc(bytes);

	return to ? text_escape(from, to, bytes) : NULL;
}

char *text_path_part(const char *text)
{
	char *part = malloc(3 * strlen(text) + 1);
	size_t n = 0;

	for (; part && *text; text++) {
		unsigned char c = (unsigned char)*text;

		if (isalnum(c) || strchr("-._~:@!$&'()*+,;=", c))
			part[n++] = (char)c;
		else
			n += (size_t)snprintf(part + n, 4, "%%%02X", c);
	}
	if (part)
		part[n] = 0;
	return part;
}
