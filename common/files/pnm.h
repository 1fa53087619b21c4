/* Pictures as planes of floats, and the simplest files that hold them: PGM (grey) and PPM (colour).
 * Format: netpbm.sourceforge.net/doc/pgm.html and ppm.html. */
#pragma once
#include <stddef.h>
#include <stdio.h>

typedef struct pnm_image {
  int planes, height, width; /* planes: 1 (grey) or 3 (red, green, blue) */
  float *value;              /* [planes][height][width], 0 (dark) to 1 */
} pnm_image;

/* Allocates uninitialised values. Returns 0, or -1 when there is no memory. Free with pnm_free. */
int pnm_alloc(pnm_image *image, int planes, int height, int width);
void pnm_free(pnm_image *image);

/* Reads the first picture of a P2, P3, P5 or P6 file, up to 16 bits a sample. Returns 0 (free with pnm_free), or -1 with one line in `error`
 * that names the file and what was expected. */
int pnm_read(pnm_image *image, const char *path, char *error, size_t error_size);

/* Writes 8 bits a sample, P5 or P6; values outside 0 to 1 are clamped. Whether that went well, the file's error indicator says. */
void pnm_write(const pnm_image *image, FILE *file);

/* Makes a picture of at most the size of `from`, its own `to->height` x `to->width`: every new pixel is the mean of the area it covers.
 * Returns 0 (`to` is then allocated, free with pnm_free), or -1 when there is no memory. */
int pnm_shrink(pnm_image *to, const pnm_image *from);
