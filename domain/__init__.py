"""The rules of punto banco and of its money: no input, output, clock or chance."""
