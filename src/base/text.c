/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Numbers, sizes and durations as people write them; UTF-8 and parts of a URL.
 *
 * Any thread; pure. Everything is strict: no signs, no blanks, no rest behind the number, and an
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

/* Reads the digits at *at and moves behind them. -EINVAL without a digit, -ERANGE beyond 64 bits.
 */
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

/* A number followed by one of the units; "" stands for the unit of a bare number. */
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
		{"", 1},           {"B", 1},
		{"K", 1ull << 10}, {"KiB", 1ull << 10},
		{"M", 1ull << 20}, {"MiB", 1ull << 20},
		{"G", 1ull << 30}, {"GiB", 1ull << 30},
		{"T", 1ull << 40}, {"TiB", 1ull << 40},
	};

	return text_parse_with_unit(text, units, ARRAY_LEN(units), ret_bytes);
}

/* The digits behind the point at *at, in parts of 10^-9; moves behind them. Without a point: 0. */
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
	/* Tenths, rounded down, of what the whole units leave. */
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
