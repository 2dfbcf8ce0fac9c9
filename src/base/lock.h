/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Mutexes that detect misuse, in release builds too: a thread that takes a lock twice, or releases
 * a lock that it does not hold, ends the program with a message. The only cost is that the mutex
 * records its owner. Any thread.
 */
#ifndef WEFT_BASE_LOCK_H
#define WEFT_BASE_LOCK_H

#include "base/check.h"

#include <pthread.h>

static inline void lock_init(pthread_mutex_t *lock)
{
	pthread_mutexattr_t attr;

	CHECK(pthread_mutexattr_init(&attr) == 0);
	CHECK(pthread_mutexattr_settype(&attr, PTHREAD_MUTEX_ERRORCHECK) == 0);
	CHECK(pthread_mutex_init(lock, &attr) == 0);
	pthread_mutexattr_destroy(&attr);
}

static inline void lock_take(pthread_mutex_t *lock)
{
	CHECK(pthread_mutex_lock(lock) == 0);
}

static inline void lock_release(pthread_mutex_t *lock)
{
	CHECK(pthread_mutex_unlock(lock) == 0);
}

#endif
