/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What a sub-command of the program `weft` tells the person at the keyboard when something is
 * wrong: one line on standard error that begins with the sub-command. For the libraries behind the
 * sub-commands too, on any thread. A daemon logs instead (base/log.h).
 */
#ifndef WEFT_BASE_TOOL_ERROR_H
#define WEFT_BASE_TOOL_ERROR_H

#include <stdarg.h>

/* "weft copy: TEXT". The text may quote what a peer said: it is escaped. */
void tool_error(const char *command, const char *format, ...) __attribute__((format(printf, 2, 3)));
void tool_verror(const char *command, const char *format, va_list args)
	__attribute__((format(printf, 2, 0)));

#endif
