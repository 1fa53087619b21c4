"""Translates between PNG or JPEG and PPM, with matplotlib and the Pillow it brings.

    picture.py sample OUT.ppm        the photograph among matplotlib's sample data
    picture.py decode PHOTO OUT.ppm  grey pictures become PGM; the rotation a camera noted is applied
    picture.py encode IN.ppm OUT.png

Exit status: 0 all right, 2 with one line on stderr.
"""

import os
import sys
import warnings


def decode(source, target):
    from PIL import Image, ImageOps

    with Image.open(source) as file:
        picture = ImageOps.exif_transpose(file)
    if picture.mode.startswith("I"):  # 16 bits a sample: Pillow would clip them, not scale
        picture = picture.convert("I").point(lambda v: v / 256).convert("L")
    elif picture.mode in ("1", "L"):
        picture = picture.convert("L")
    else:  # what is transparent shows a white page
        picture = picture.convert("RGBA")
        picture = Image.alpha_composite(Image.new("RGBA", picture.size, "white"), picture).convert("RGB")
    picture.save(target, format="PPM")


def sample(target):
    from matplotlib import cbook

    decode(cbook.get_sample_data("grace_hopper.jpg", asfileobj=False), target)


def encode(source, target):
    from PIL import Image

    partial = target + ".partial"
    with Image.open(source) as picture:
        picture.save(partial, format="PNG")
    os.replace(partial, target)


if __name__ == "__main__":
    warnings.simplefilter("ignore")  # Pillow's about huge pictures: they are welcome here
    commands = {"sample": sample, "decode": decode, "encode": encode}
    try:
        commands[sys.argv[1]](*sys.argv[2:])
    except Exception as error:  # a decoder meets files of any kind, and raises errors of any kind
        name = sys.argv[2] if len(sys.argv) > 3 else "matplotlib's sample photograph"
        reason = str(error).splitlines()[0] if str(error) else type(error).__name__
        print(f"{name}: expected a picture that matplotlib can decode: {reason}", file=sys.stderr)
        sys.exit(2)
