/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Orders on standard input, one per line, for programs with one reactor: a thread reads them and
 * posts each to the reactor. The end of the input counts as the order "stop", which is the last.
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
/* Waits for the thread; call before the reactor is destroyed. */
void orders_join(void);

#endif
