"""Whether what stands on a page can be read: the contrast of each piece of text with what is behind it."""

from __future__ import annotations

from typing import Any

from tests.browser.lab import command

__all__ = ["hard_to_read"]

#: Of all text within what a selector finds: the text, its contrast by WCAG 2, its colour and that behind it.
_CONTRASTS = r"""selector => {
    const canvas = new OffscreenCanvas(1, 1).getContext('2d', { willReadFrequently: true });
    const rgba = colour => {
        canvas.clearRect(0, 0, 1, 1);
        canvas.fillStyle = colour;
        canvas.fillRect(0, 0, 1, 1);
        const [r, g, b, a] = canvas.getImageData(0, 0, 1, 1).data;
        return [r, g, b, a / 255];
    };
    const over = ([r, g, b, a], below) => [r, g, b].map((one, at) => one * a + below[at] * (1 - a));
    const faded = (colour, share) => [...colour.slice(0, 3), colour[3] * share];
    const within = (box, x, y) => box.left <= x && x <= box.right && box.top <= y && y <= box.bottom;
    const light = colour => {
        const linear = one => one <= 0.03928 ? one / 12.92 : ((one + 0.055) / 1.055) ** 2.4;
        const [r, g, b] = colour.map(one => linear(one / 255));
        return 0.2126 * r + 0.7152 * g + 0.0722 * b;
    };
    // From the page to the element: what is painted below it, and how far opacity has faded it.
    const around = element => {
        const chain = [];
        for (let one = element; one; one = one.parentElement) chain.unshift(one);
        let below = [255, 255, 255], opacity = 1;
        for (const one of chain) {
            const style = getComputedStyle(one);
            opacity *= Number(style.opacity);
            if (!one.closest('svg')) below = over(faded(rgba(style.backgroundColor), opacity), below);
        }
        return [below, opacity];
    };
    const painted = (svg, text, below) => {
        const box = text.getBoundingClientRect(), x = (box.left + box.right) / 2, y = (box.top + box.bottom) / 2;
        for (const shape of svg.querySelectorAll('rect,ellipse,circle')) {
            if (!(shape.compareDocumentPosition(text) & Node.DOCUMENT_POSITION_FOLLOWING)) continue;
            const style = getComputedStyle(shape);
            if (style.fill === 'none' || !within(shape.getBoundingClientRect(), x, y)) continue;
            below = over(faded(rgba(style.fill), Number(style.fillOpacity) * Number(style.opacity)), below);
        }
        return below;
    };
    const found = [];
    for (const root of document.querySelectorAll(selector)) {
        const texts = document.createTreeWalker(root, NodeFilter.SHOW_TEXT);
        while (texts.nextNode()) {
            const text = texts.currentNode.textContent.trim(), element = texts.currentNode.parentElement;
            const disabled = element.closest(':disabled');  // as browsers and WCAG have it
            if (!text || disabled || element.closest('style,title,select') || !element.checkVisibility()) continue;
            const svg = element.closest('svg'), style = getComputedStyle(element);
            let [below, opacity] = around(element);
            if (svg) below = painted(svg, element, below);
            const colour = svg ? faded(rgba(style.fill), Number(style.fillOpacity)) : rgba(style.color);
            const above = over(faded(colour, opacity), below);
            const [dim, bright] = [light(above), light(below)].sort((one, two) => one - two);
            found.push({ text: text.slice(0, 60), contrast: (bright + 0.05) / (dim + 0.05), above, below });
        }
    }
    return found;
}"""


def hard_to_read(page: Any, selector: str, least: float = 4.5) -> dict[str, list[str]]:
    """Return by theme which text in `selector` has a contrast below `least`; at the end the theme is light."""
    found = {}
    for theme in ("JupyterLab Dark", "JupyterLab Light"):
        command(page, "apputils:change-theme", theme=theme)
        page.wait_for_function(f"document.body.dataset.jpThemeName === '{theme}'")
        texts = page.evaluate(_CONTRASTS, selector)
        assert texts, f"there is no text in {selector}"
        found[theme] = [
            f"{one['text']!r}: {one['contrast']:.1f} ({one['above']} on {one['below']})"
            for one in texts
            if one["contrast"] < least
        ]
    return {theme: texts for theme, texts in found.items() if texts}
