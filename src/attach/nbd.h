/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The NBD server of `weft attach --nbd`: clients on a Unix socket, one namespace behind them. One
 * thread runs all of it, the main one: it sleeps in poll(2), and libweft's callbacks run on it, in
 * weft_poll. So there is no lock.
 *
 * Memory is bounded: so many clients, each with so many requests and bytes under way. A client that
 * is at its bounds is not read from; one that does not read its answers gets there by itself.
 */
#ifndef WEFT_ATTACH_NBD_H
#define WEFT_ATTACH_NBD_H

#include "attach/nbd_proto.h"
#include "attach/ns.h"
#include "base/list.h"
#include "weft/weft.h"

#define NBD_CLIENTS_MAX  16
#define NBD_CLIENT_SLOTS 128
#define NBD_CLIENT_BYTES NBD_LENGTH_MAX /* under way; a longer request goes alone */
#define NBD_RX_BYTES     65536          /* an option and its header fit */
#define NBD_SLOT_KEPT    (128u << 10)   /* a buffer up to this size stays with its slot */
#define NBD_SEND_PIECES  64
#define NBD_STATUS_BYTES (64u << 10)            /* of the controller's list, and of the reply */
#define NBD_STATUS_LIST  (NBD_STATUS_BYTES / 2) /* the list first, twice as many extents fit */
#define NBD_HANDSHAKE_NS (10ull * 1000000000)
#define NBD_STOP_NS      (10ull * 1000000000)
#define NBD_ROUNDS_MAX   16 /* receives of one client before the next has its turn */

struct nbd_client;

struct nbd_options {
	const char *command; /* the sub-command, for messages */
	const char *socket_path;
	const char *export_name;
	const char *description;
	bool is_read_only;
	struct weft *weft; /* with WEFT_CALLBACKS_POLL */
	struct attach_ns *attached;
};

/* One request, from its header to its last byte of reply. */
struct nbd_slot {
	struct weft_request request;
	struct iovec iov;
	struct nbd_client *client;
	struct list node; /* free, or waiting to be sent */
	struct nbd_request asked;
	uint8_t *buf;
	size_t buf_bytes;
	size_t held_bytes;   /* of the client's bounds */
	size_t reply_offset; /* of a read: where what was asked for begins in buf */
	size_t reply_bytes;
	size_t sent_bytes; /* of header and reply */
	bool tells_loss;   /* the reply is a flush's that failed: writes may be lost */
	uint8_t header[NBD_HEADER_MAX_BYTES];
	size_t header_bytes;
};

struct nbd_client {
	const struct nbd_options *options;
	struct weft_ns *ns; /* its own handle: the client is told of lost writes by itself */
	struct list node;   /* the server's */
	int fd;
	short poll_events; /* what it waits for */
	bool is_ending;    /* no further request is taken */
	bool is_broken;    /* the socket is of no use: replies are dropped */
	uint64_t deadline_ns;
	struct nbd_export export;
	struct nbd_handshake handshake;
	size_t answer_sent_bytes;
	size_t rx_begin, rx_end;
	uint64_t skip_bytes;      /* data of a write that was refused */
	struct nbd_slot *filling; /* a write whose data is on its way */
	size_t filled_bytes;
	size_t held_bytes;
	unsigned in_flight; /* requests that libweft has */
	struct list free_slots;
	struct list replies;
	uint8_t rx[NBD_RX_BYTES];
	struct nbd_slot slots[NBD_CLIENT_SLOTS];
};

/* NULL: out of memory. Owns fd from here on. */
struct nbd_client *nbd_client_create(const struct nbd_options *options, int fd,
				     const struct nbd_export *export, uint64_t now_ns);
/* Sends, parses and receives until it has to wait; then poll_events says for what. */
void nbd_client_work(struct nbd_client *client);
/* Whether nothing is left to do for it; then it is destroyed by the server. */
bool nbd_client_is_over(const struct nbd_client *client);
/* The socket is of no use any more. It is over when libweft has its last request back. */
void nbd_client_break(struct nbd_client *client);
bool nbd_client_is_shaking_hands(const struct nbd_client *client);
void nbd_client_destroy(struct nbd_client *client);

/* Carries out a request whose data, if it has any, is there. */
void nbd_slot_submit(struct nbd_slot *slot);
/* Puts the reply in line. */
void nbd_slot_answer(struct nbd_slot *slot, enum nbd_error error);
/* What a request, which has been checked, holds in memory: whole blocks; 0 without data. */
size_t nbd_asked_bytes(const struct nbd_request *asked, const struct nbd_export *export);
/* 0 or -ENOMEM: the buffer for what the slot was asked for. */
int nbd_slot_hold(struct nbd_slot *slot);
void nbd_slot_release(struct nbd_slot *slot);
/* The same of a request whose reply the client did not get. */
void nbd_slot_drop(struct nbd_slot *slot);

/* Serves until SIGTERM or SIGINT, which must be blocked. 0, or -1 after a message. */
int nbd_serve(const struct nbd_options *options);

#endif
