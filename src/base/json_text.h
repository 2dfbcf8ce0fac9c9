/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Jansson flags for writing JSON. Without a precision, Jansson writes 17 digits of every number, so
 * that 128.961 becomes 128.96100000000001. Only macros: the user includes jansson.h.
 */
#ifndef WEFT_BASE_JSON_TEXT_H
#define WEFT_BASE_JSON_TEXT_H

/* For times since 1970 with a fraction: every decimal of up to 15 digits is written unchanged. */
#define JSON_TEXT_FLAGS (JSON_INDENT(2) | JSON_REAL_PRECISION(15))
/* For measurements: 9 digits are more than any measurement has. */
#define JSON_TEXT_MEASURED (JSON_INDENT(2) | JSON_REAL_PRECISION(9))

#endif
