/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A struct media_driver makes a kind of medium known: its name in a spec, its parser, its
 * constructor. Drivers of media that stand alone are in driver.c. Those of media made of other
 * media, or of media on another machine, are in volume/, whose drivers.c lists all drivers. Control
 * thread.
 */
#ifndef WEFT_MEDIA_DRIVER_H
#define WEFT_MEDIA_DRIVER_H

#include "media/spec.h"

/* One medium being opened, as passed to its driver. */
struct media_opening {
	const struct media_spec *spec;
	/* Opened media, in the order of spec->children. When open succeeds they become
	 * media->children of the new medium, and media_close closes them after the new medium. */
	struct media **children;
	unsigned child_count;
	bool is_reopen; /* over an open store: open must not return -EINPROGRESS */
	void *own;      /* for the driver; NULL at first */
};

struct media_driver {
	const char *name; /* before the colon of a spec */
	const char *form; /* example of the spec, for error messages */
	enum media_spec_kind kind;
	/* The medium has one child and changes how its I/O runs. The store of the child answers all
	 * questions, and media_reopen reopens that store. A medium that keeps data of its own, such
	 * as a thin volume or a mirror with one side left, is no wrapper. */
	bool is_wrapper;
	const char *options; /* the options that parse knows, for error messages */
	/* Fills spec from `body`, the string after the colon, and may modify body. On failure, what
	 * parse allocated in spec stays there for media_spec_free. NULL: the default parser, a path
	 * or a size and then options. */
	int (*parse)(struct media_spec *spec, char *body, unsigned depth,
		     struct media_error *ret_error);
	/*
	 * Returns 0 with everything in *ret_media set but spec and children, or -errno with
	 * ret_error filled. -EINPROGRESS: the driver finishes later. `opening` and its spec stay
	 * valid, and the driver calls media_opening_end on this thread.
	 */
	int (*open)(struct media_opening *opening, struct media **ret_media,
		    struct media_error *ret_error);
	/* After -EINPROGRESS: asks the driver to finish soon; media_opening_end is still called.
	 * NULL: cannot be cancelled. */
	void (*cancel)(struct media_opening *opening);
};

/* All drivers, ends with NULL. In volume/drivers.c. */
extern const struct media_driver *const media_drivers[];

extern const struct media_driver media_file_driver;
extern const struct media_driver media_mem_driver;
extern const struct media_driver media_null_driver;

/* Ends an opening after -EINPROGRESS, with the result as from open. error: the reason on failure;
 * NULL keeps the message that is already set. */
void media_opening_end(struct media_opening *opening, struct media *media, int res,
		       const struct media_error *error);

/* For open: copies the properties of one child, from size_bytes to boundary_bytes of struct media,
 * for a medium that passes each I/O on. */
void media_inherit(struct media *to, const struct media *from);

/* For parse: allocates `count` children in spec. 0 or -ENOMEM. */
int media_spec_add_children(struct media_spec *spec, unsigned count, struct media_error *ret_error);
/* For parse: parses one child from `text`. Pass the `depth` that parse was given. */
int media_spec_parse_child(struct media_spec *spec, unsigned index, const char *text,
			   unsigned depth, struct media_error *ret_error);

#endif
