/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Programmer errors: CHECK is on in release builds too, CHECK_COSTLY is not.
 *
 * A storage target that continues with a wrong slot writes to another user's data, so a broken
 * invariant ends the process with a message. Bad input never fails a CHECK.
 */
#ifndef WEFT_BASE_CHECK_H
#define WEFT_BASE_CHECK_H

#include <stddef.h>

_Noreturn void check_failed(const char *file, int line, const char *what);
/* Sets a function that check_failed calls before it prints its message, in any thread and any
 * state: the function must neither allocate nor lock. */
void check_set_last_words(void (*fn)(void));

#define CHECK(cond)                                                                                \
	do {                                                                                       \
		if (__builtin_expect(!(cond), 0))                                                  \
			check_failed(__FILE__, __LINE__, #cond);                                   \
	} while (0)

/*
 * For checks whose cost every command would pay: on in builds with sanitizers, without
 * optimization, and with -DWEFT_CHECK_COSTLY=1. In other builds the condition is compiled but not
 * evaluated.
 */
#ifndef WEFT_CHECK_COSTLY
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__) || !defined(__OPTIMIZE__)
#define WEFT_CHECK_COSTLY 1
#elif defined(__has_feature)
#if __has_feature(address_sanitizer) || __has_feature(thread_sanitizer)
#define WEFT_CHECK_COSTLY 1
#endif
#endif
#endif
#ifndef WEFT_CHECK_COSTLY
#define WEFT_CHECK_COSTLY 0
#endif

#define CHECK_COSTLY(cond) CHECK(!WEFT_CHECK_COSTLY || (cond))

#define container_of(ptr, type, member) ((type *)(void *)((char *)(ptr)-offsetof(type, member)))

#define ARRAY_LEN(a) (sizeof(a) / sizeof((a)[0]))

#endif
