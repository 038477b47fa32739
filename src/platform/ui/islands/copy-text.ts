/** A text with a button that copies it. Without script, the button stays hidden and the text can be selected. */
class CopyText extends HTMLElement {
  connectedCallback(): void {
    const button = this.querySelector('button')
    const source = this.querySelector('textarea, pre, code')
    if (!button || !source || !navigator.clipboard) return
    const { textContent: text, ariaLabel: label } = button
    const report = (result: string): void => {
      button.textContent = result
      // A screen reader announces the label.
      button.ariaLabel = result
    }
    button.hidden = false
    button.addEventListener('click', async () => {
      try {
        const copied = source instanceof HTMLTextAreaElement ? source.value : source.textContent
        await navigator.clipboard.writeText(copied)
        report('Copied')
      } catch {
        // The browser does not allow it. The text is selected, to be copied by hand.
        if (source instanceof HTMLTextAreaElement) source.select()
        else window.getSelection()?.selectAllChildren(source)
        report('Selected: copy it')
      }
      window.setTimeout(() => {
        button.textContent = text
        button.ariaLabel = label
      }, 2_000)
    })
  }
}

customElements.define('copy-text', CopyText)
