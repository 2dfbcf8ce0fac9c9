/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Error messages of the sub-commands of `weft`, for the person at the keyboard: one line on
 * standard error that begins with the sub-command. Also for the libraries behind the sub-commands,
 * on any thread. A daemon logs instead (base/log.h).
 */
#ifndef WEFT_BASE_TOOL_ERROR_H
#define WEFT_BASE_TOOL_ERROR_H

#include <stdarg.h>

/* Prints "weft COMMAND: TEXT". TEXT is escaped, because it may quote a peer. */
void tool_error(const char *command, const char *format, ...) __attribute__((format(printf, 2, 3)));
void tool_verror(const char *command, const char *format, va_list args)
	__attribute__((format(printf, 2, 0)));

#endif
