/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Programmer errors: CHECK is on in release builds too.
 *
 * A storage target that goes on with a wrong slot writes someone else's data, so a broken
 * invariant ends the process with a message. Bad input is never a CHECK.
 */
#ifndef WEFT_BASE_CHECK_H
#define WEFT_BASE_CHECK_H

#include <stddef.h>

_Noreturn void check_failed(const char *file, int line, const char *what);
/* Called before the message, in any thread and any state: it may neither allocate nor lock. */
void check_set_last_words(void (*fn)(void));

#define CHECK(cond)                                                                                \
	do {                                                                                       \
		if (__builtin_expect(!(cond), 0))                                                  \
			check_failed(__FILE__, __LINE__, #cond);                                   \
	} while (0)

#define container_of(ptr, type, member) ((type *)(void *)((char *)(ptr)-offsetof(type, member)))

#define ARRAY_LEN(a) (sizeof(a) / sizeof((a)[0]))

#endif
