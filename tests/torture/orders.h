/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Orders on standard input, one per line, for programs with one reactor: a thread of its own reads
 * them and posts each to the reactor. The end of the input is the order "stop", and the last one.
 */
#ifndef WEFT_TORTURE_ORDERS_H
#define WEFT_TORTURE_ORDERS_H

#include "reactor/reactor.h"

struct order {
	struct reactor_msg msg;
	char text[32];
};

/* `on_order` gets &order->msg on the reactor, and frees the order. 0 or -errno. */
int orders_start(struct reactor *reactor, void (*on_order)(struct reactor_msg *msg));
/* Waits for the thread; before the reactor is destroyed. */
void orders_join(void);

#endif
