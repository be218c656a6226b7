"""All that knows Keras. docs/design/keras.md explains the modules."""
