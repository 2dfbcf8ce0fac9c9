/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What a kind of medium brings to be named in a spec and opened: a struct media_driver. The kinds
 * that stand alone are in driver.c; those made of other media, or of another machine's, are in
 * volume/, whose drivers.c lists all of them. Control thread.
 */
#ifndef WEFT_MEDIA_DRIVER_H
#define WEFT_MEDIA_DRIVER_H

#include "media/spec.h"

/* One medium being opened: what its driver is given. */
struct media_opening {
	const struct media_spec *spec;
	/* Open, in the order of spec->children. When open succeeds they belong to the new medium,
	 * as media->children, and media_close closes them after it. */
	struct media **children;
	unsigned child_count;
	void *own; /* the driver's, NULL at first */
};

struct media_driver {
	const char *name; /* before the colon of a spec */
	const char *form; /* how a spec of it looks, for people */
	enum media_spec_kind kind;
	const char *options; /* which ones parse knows, for people */
	/* Fills spec from `body`, the text behind the colon, which may be cut into pieces. What it
	 * allocates in spec stays there on failure too. NULL: a path or a size, then options. */
	int (*parse)(struct media_spec *spec, char *body, unsigned depth,
		     struct media_error *ret_error);
	/*
	 * 0 with everything in *ret_media set but its spec and its children, or -errno with
	 * ret_error filled. -EINPROGRESS: it takes its time, opening and spec stay valid, and
	 * media_opening_end follows on this thread.
	 */
	int (*open)(struct media_opening *opening, struct media **ret_media,
		    struct media_error *ret_error);
	/* Of one that takes its time: its end is wanted soon, and media_opening_end still comes.
	 * NULL: it comes when it comes. */
	void (*cancel)(struct media_opening *opening);
};

/* Ends with NULL. volume/drivers.c */
extern const struct media_driver *const media_drivers[];

extern const struct media_driver media_file_driver;
extern const struct media_driver media_mem_driver;
extern const struct media_driver media_null_driver;

/* After -EINPROGRESS: as the result of open; on failure the text is in `error`, which may be NULL
 * otherwise. */
void media_opening_end(struct media_opening *opening, struct media *media, int res,
		       const struct media_error *error);

/* For parse: makes room for so many children in spec. 0 or -ENOMEM. */
int media_spec_add_children(struct media_spec *spec, unsigned count, struct media_error *ret_error);
/* For parse: the text of one of them. `depth` is parse's own. */
int media_spec_parse_child(struct media_spec *spec, unsigned index, const char *text,
			   unsigned depth, struct media_error *ret_error);

#endif
