/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Numbers, sizes and durations as people write them: "10G", "4096", "500ms", "5s"; UTF-8 and parts
 * of a URL.
 */
#ifndef WEFT_BASE_TEXT_H
#define WEFT_BASE_TEXT_H

#include <stddef.h>
#include <stdint.h>

/* Decimal or 0x; the whole text must be a number no greater than `max`. 0, -EINVAL or -ERANGE. */
int text_parse_u64(const char *text, uint64_t max, uint64_t *ret_value);
/* Bytes; suffixes K, M, G, T are powers of 1024 ("10G", "10GiB", "512"). 0, -EINVAL, -ERANGE. */
int text_parse_size(const char *text, uint64_t *ret_bytes);
/* Milliseconds from "250ms", "1.5s", "2m", "1h"; a bare number is seconds. Up to nine decimals;
 * what is no whole number of milliseconds is rounded up. 0, -EINVAL, -ERANGE. */
int text_parse_duration_ms(const char *text, uint64_t *ret_ms);
/* "1.5 GiB" for people. Returns `text`. */
const char *text_format_size(uint64_t bytes, char *text, size_t text_bytes);
/* Copies at most bytes-1 characters and always terminates; returns the length of `from`. */
size_t text_copy(char *to, size_t to_bytes, const char *from);
/* Bytes of the well-formed UTF-8 sequence at the start of this terminated text, 0 when there is
 * none (RFC 3629). */
size_t text_utf8_bytes(const char *text);

/*
 * Foreign text for a terminal, a log or any other line of text: what is not printable becomes an
 * escape. That is control characters (C0, DEL, C1), line and paragraph separators, characters that
 * change the direction of what follows or cannot be seen, as \uXXXX (JSON's escape, in pairs beyond
 * U+FFFF); and bytes that are not UTF-8, as \xXX. All else stays, so that escaping twice changes
 * nothing. Always terminates; what does not fit is cut off between characters. Returns `to`.
 */
char *text_escape(const char *from, char *to, size_t to_bytes);
/* The same in memory for free(); NULL: out of memory. */
char *text_escape_dup(const char *from);

/* For one part of a URL's path: what may not stand there becomes %XX (RFC 3986, pchar). For free();
 * NULL: out of memory. */
char *text_path_part(const char *text);

#endif
