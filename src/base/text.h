/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Strings: parsing numbers, sizes and durations ("10G", "4096", "500ms", "5s"); UTF-8, escaping,
 * and parts of a URL.
 */
#ifndef WEFT_BASE_TEXT_H
#define WEFT_BASE_TEXT_H

#include <stddef.h>
#include <stdint.h>

/* Parses a decimal or 0x number. The whole string must be a number no greater than `max`. 0,
 * -EINVAL or -ERANGE. */
int text_parse_u64(const char *text, uint64_t max, uint64_t *ret_value);
/* Parses a size in bytes. The suffixes K, M, G, T are powers of 1024 ("10G", "10GiB", "512"), KB,
 * MB, GB, TB powers of 1000. 0, -EINVAL, -ERANGE. */
int text_parse_size(const char *text, uint64_t *ret_bytes);
/* Parses a duration ("250ms", "1.5s", "2m", "1h") to milliseconds. A number without a unit is
 * seconds. Up to nine decimals; fractions of a millisecond are rounded up. 0, -EINVAL, -ERANGE. */
int text_parse_duration_ms(const char *text, uint64_t *ret_ms);
/* Formats a size for people: "1.5 GiB". Returns `text`. */
const char *text_format_size(uint64_t bytes, char *text, size_t text_bytes);
/* Copies at most to_bytes - 1 bytes and always terminates. Returns the length of `from`. */
size_t text_copy(char *to, size_t to_bytes, const char *from);
/* Bytes of the well-formed UTF-8 sequence at the start of this terminated string; 0: not well
 * formed (RFC 3629). */
size_t text_utf8_bytes(const char *text);

/*
 * Escapes an untrusted string for a terminal, a log or any other line of text. Control characters
 * (C0, DEL, C1), line and paragraph separators, and characters that are invisible or change the
 * text's direction become \uXXXX (JSON's escape, in pairs beyond U+FFFF). Bytes that are not UTF-8
 * become \xXX. All other characters stay, so that escaping twice changes nothing. Always
 * terminates; a result that does not fit is truncated between characters. Returns `to`.
 */
char *text_escape(const char *from, char *to, size_t to_bytes);
/* As text_escape, in memory that the caller frees with free(). NULL: out of memory. */
char *text_escape_dup(const char *from);

/* Escapes one segment of a URL's path: characters not allowed there become %XX (RFC 3986, pchar).
 * Freed with free(). NULL: out of memory. */
char *text_path_part(const char *text);

#endif
