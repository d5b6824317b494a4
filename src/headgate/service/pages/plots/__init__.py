"""Small plots, drawn as SVG where the page is made: nothing to load, and they are there with the first paint.

They are as wide as their place: lines lie in a box that is stretched, texts and markers at percentages of its width.
"""
